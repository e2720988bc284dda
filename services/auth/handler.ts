import type { ServiceImpl } from "@connectrpc/connect";
import type { AuthService } from "../../gen/gatehouse/account/v1/auth_service_pb.ts";
import { callOf, signedInCallOf } from "../call.ts";
import { login } from "./login.ts";
import { logout } from "./logout.ts";
import { refresh } from "./refresh.ts";
import { register } from "./register.ts";
import { verifyEmail } from "./verify-email.ts";

/** Messages in, messages out; every decision is made by an operation. */
export const authHandler: Partial<ServiceImpl<typeof AuthService>> = {
  async register(req, ctx) {
    const userId = await register(callOf(ctx), req.email, req.password, req.name);
    return { message: "Welcome! Please check your mail and confirm your address.", userId };
  },
  async login(req, ctx) {
    const { user, tokens, passwordExpired } = await login(callOf(ctx), req.email, req.password);
    return {
      requiresMfa: false,
      ...tokens,
      user: { id: user.id, email: user.email, name: user.name, role: user.role },
      ...(passwordExpired && { passwordExpired }),
    };
  },
  async logout(_req, ctx) {
    await logout(signedInCallOf(ctx));
    return { message: "You are signed out." };
  },
  async refresh(req, ctx) {
    return refresh(callOf(ctx), req.refreshToken);
  },
  async verifyEmail(req, ctx) {
    await verifyEmail(callOf(ctx), req.token);
    return { message: "Your e-mail address is confirmed." };
  },
  listKeys(_req, ctx) {
    const keys = callOf(ctx).keys.published();
    return { keys: keys.map(({ kid, x }) => ({ kid, x, kty: "OKP", crv: "Ed25519", alg: "EdDSA", use: "sig" })) };
  },
};
