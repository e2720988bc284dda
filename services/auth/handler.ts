import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import type { ServiceImpl } from "@connectrpc/connect";
import type { AuthService } from "../../gen/gatehouse/account/v1/auth_service_pb.ts";
import { confirm } from "../accounts/confirm.ts";
import { assertSetupToken, makeFirstAdministrator } from "../accounts/first-administrator.ts";
import { callOf, sessionCallOf } from "../call.ts";
import { disown } from "../devices/disown.ts";
import { identityMessage } from "../external/identity-message.ts";
import { given } from "../passkeys/credential.ts";
import { KEEPS_COOKIES } from "../platform/rpc/metadata.ts";
import { referenceOf } from "../sessions/check-api-key.ts";
import { connectIdentity } from "./connect-identity.ts";
import { requestEmailCode, verifyEmailCode } from "./email-code-sign-in.ts";
import { logout } from "./end-session.ts";
import { finishExternal, startExternal } from "./external-sign-in.ts";
import { login, verifyMfa } from "./login.ts";
import { createBackupCodes, disableTotp, setupTotp } from "./mfa-settings.ts";
import { startPasskey, verifyPasskey } from "./passkey-sign-in.ts";
import { refresh } from "./refresh.ts";
import { register } from "./register.ts";
import { forgotPassword, resetPassword } from "./reset-password.ts";
import { listSignInMethods } from "./sign-in-methods.ts";
import { resendVerification, verifyEmail } from "./verify-email.ts";

/** Maps messages to operations and back. Contains no decisions. */
export const authHandler: ServiceImpl<typeof AuthService> = {
  async register(req, ctx) {
    const call = callOf(ctx);
    const isFirst = req.setupToken !== undefined;
    if (isFirst) await assertSetupToken(call, req.setupToken);
    const userId = await register(call, req.email, req.password, req.name, req.locale, isFirst);
    if (isFirst) await makeFirstAdministrator(call, userId);
    return {
      message: "Welcome! Please verify your e-mail address with the link that we have sent you.",
      userId,
    };
  },
  async login(req, ctx) {
    const outcome = await login(callOf(ctx), req.email, req.password, req.deviceToken);
    return { requiresMfa: "tempToken" in outcome, ...outcome };
  },
  async logout(req, ctx) {
    const call = sessionCallOf(ctx);
    await logout(call, req.refreshToken);
    if (call.principal.actorId) ctx.responseHeader.set(KEEPS_COOKIES, "1");
    return { message: "You are signed out." };
  },
  refresh: (req, ctx) => refresh(callOf(ctx), req.refreshToken),
  async verifyEmail(req, ctx) {
    await verifyEmail(callOf(ctx), req.token);
    return { message: "Your e-mail address is verified." };
  },
  async resendVerification(req, ctx) {
    await resendVerification(callOf(ctx), req.email);
    return { message: "If this address still needs to be verified, we have sent a new e-mail." };
  },
  async disown(req, ctx) {
    const outcome = await disown(callOf(ctx), req.token, req.email);
    return {
      message:
        outcome === "erased"
          ? "The account has been deleted."
          : "All sessions have ended, and your password no longer works. We have sent you an e-mail with a link to set a new one.",
    };
  },
  async forgotPassword(req, ctx) {
    await forgotPassword(callOf(ctx), req.email);
    return {
      message: "If there is an account for this address, we have sent an e-mail with a link.",
    };
  },
  async resetPassword(req, ctx) {
    await resetPassword(callOf(ctx), req.token, req.password);
    return { message: "Your password has been changed. Please sign in." };
  },
  setupTotp: (req, ctx) => setupTotp(sessionCallOf(ctx), req.password),
  verifyMfa: (req, ctx) => verifyMfa(callOf(ctx), req.tempToken, req, req.deviceToken),
  async startPasskey(req, ctx) {
    return { options: await startPasskey(callOf(ctx), req.tempToken) };
  },
  async verifyPasskey({ credential, tempToken, deviceToken }, ctx) {
    return verifyPasskey(callOf(ctx), given(credential), tempToken, deviceToken);
  },
  async startExternal(req, ctx) {
    return startExternal(callOf(ctx), req, req.deviceToken);
  },
  async finishExternal(req, ctx) {
    const outcome = await finishExternal(callOf(ctx), req, req.deviceToken);
    return { requiresMfa: "tempToken" in outcome, ...outcome };
  },
  async requestEmailCode(req, ctx) {
    const deviceToken = await requestEmailCode(callOf(ctx), req.email, req.deviceToken);
    const message = "If there is an account for this address, we have sent an e-mail with a code.";
    return { message, deviceToken };
  },
  async verifyEmailCode(req, ctx) {
    const outcome = await verifyEmailCode(callOf(ctx), req, req.deviceToken);
    return { requiresMfa: "tempToken" in outcome, ...outcome };
  },
  async connectIdentity(req, ctx) {
    const call = sessionCallOf(ctx);
    const identity = await connectIdentity(call, req.identityToken, req.deviceToken);
    return { identity: identityMessage(identity) };
  },
  async disableTotp(req, ctx) {
    await disableTotp(sessionCallOf(ctx), req.password, req);
    return { message: "Two-factor authentication is disabled." };
  },
  async createBackupCodes(req, ctx) {
    return { backupCodes: await createBackupCodes(sessionCallOf(ctx), req.password, req.code) };
  },
  async confirm(req, ctx) {
    const confirmedUntil = timestampFromDate(await confirm(sessionCallOf(ctx), req));
    return { message: "You have confirmed that it is you.", confirmedUntil };
  },
  listSignInMethods: (_req, ctx) => listSignInMethods(callOf(ctx)),
  async listKeys(_req, ctx) {
    const keys = await callOf(ctx).keys.jwks();
    return {
      keys: keys.map(({ kid, x }) => ({
        kid,
        x,
        kty: "OKP",
        crv: "Ed25519",
        alg: "EdDSA",
        use: "sig",
      })),
    };
  },
  async findApiKey({ digest }, ctx) {
    const found = await callOf(ctx).findKey(Buffer.from(digest).toString("hex"));
    if (!found) return {};
    const { keyId: id, isService: serviceAccount, ...rest } = referenceOf(found);
    return { apiKey: { id, serviceAccount, ...rest } };
  },
};
