import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import type { ServiceImpl } from "@connectrpc/connect";
import type { UserService } from "../../gen/gatehouse/account/v1/user_service_pb.ts";
import { type SignedInCall, signedInCallOf } from "../call.ts";
import { changeEmail } from "./change-email.ts";
import { changePassword } from "./change-password.ts";
import { updateProfile } from "./update-profile.ts";

/** Messages in, messages out; every decision is made by an operation. */
export const userHandler: Partial<ServiceImpl<typeof UserService>> = {
  getProfile(_req, ctx) {
    return { user: profileOf(signedInCallOf(ctx)) };
  },
  async updateProfile(req, ctx) {
    const user = await updateProfile(signedInCallOf(ctx), { name: req.name, bio: req.bio });
    return { message: "Your profile is updated.", user };
  },
  async changePassword(req, ctx) {
    await changePassword(signedInCallOf(ctx), req.currentPassword, req.newPassword);
    return { message: "Your password is changed. All your other sessions have ended." };
  },
  async changeEmail(req, ctx) {
    await changeEmail(signedInCallOf(ctx), req.newEmail, req.password);
    return { message: "Please check the mail at your new address and confirm it." };
  },
};

/** The caller's account as the profile shows it; it was read when the call was authorized. */
function profileOf({ caller: { user }, config }: SignedInCall) {
  const expiresAt = new Date(user.passwordChangedAt.getTime() + config.passwordMaxAgeMs);
  return {
    id: user.id,
    email: user.email,
    name: user.name,
    ...(user.bio !== null && user.bio !== undefined && { bio: user.bio }),
    role: user.role,
    emailVerified: user.emailVerified,
    mfaEnabled: user.mfaEnabled,
    createdAt: timestampFromDate(user.createdAt),
    updatedAt: timestampFromDate(user.updatedAt),
    ...(config.passwordMaxAgeMs > 0 && { passwordExpiresAt: timestampFromDate(expiresAt) }),
  };
}
