import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import type { ServiceImpl } from "@connectrpc/connect";
import type { UserService } from "../../gen/gatehouse/account/v1/user_service_pb.ts";
import { countWaysIn } from "../accounts/ways-in.ts";
import { revokeOtherSessions, revokeOwnSession } from "../auth/end-session.ts";
import { requireSecondFactor } from "../auth/mfa-settings.ts";
import { sessionCallOf } from "../call.ts";
import { identityMessage } from "../external/identity-message.ts";
import { given } from "../passkeys/credential.ts";
import { listActiveKeys } from "../store/api-keys.ts";
import { listDevices } from "../store/devices.ts";
import { listIdentities } from "../store/identities.ts";
import { listOpenSessions } from "../store/sessions.ts";
import {
  changeEmail,
  changePassword,
  deleteAccount,
  removePassword,
  setPassword,
  updateProfile,
} from "./change-account.ts";
import { exportData } from "./export-data.ts";
import { forgetDevice } from "./manage-devices.ts";
import { disconnectIdentity } from "./manage-identities.ts";
import {
  createPasskey,
  createPasskeyOptions,
  listOwnPasskeys,
  removePasskey,
  renameOwnPasskey,
} from "./manage-passkeys.ts";
import { createOwnKey, revokeOwnKey } from "./own-api-keys.ts";
import {
  passkeyMessage,
  profileOf,
  sessionMessage,
  toMessage,
  waysInMessage,
} from "./to-message.ts";

/** Maps messages to operations and back. Contains no decisions. */
export const userHandler: ServiceImpl<typeof UserService> = {
  getProfile(_req, ctx) {
    const { principal, config } = sessionCallOf(ctx);
    return { user: profileOf(principal.user, config) }; // already read for authorization
  },
  async updateProfile(req, ctx) {
    const user = await updateProfile(sessionCallOf(ctx), req);
    return { message: "Your profile has been updated.", user };
  },
  async changePassword(req, ctx) {
    const call = sessionCallOf(ctx);
    const keys = await changePassword(call, req.currentPassword, req.newPassword);
    return {
      message: "Your password has been changed. All your other sessions have ended.",
      ...(keys > 0 && { activeApiKeys: keys }),
    };
  },
  async getSignInMethods(_req, ctx) {
    const call = sessionCallOf(ctx);
    const { user } = call.principal;
    return waysInMessage(await countWaysIn(call, user.id), user);
  },
  async setPassword(req, ctx) {
    await setPassword(sessionCallOf(ctx), req.newPassword);
    return { message: "Your account now has a password." };
  },
  async removePassword(_req, ctx) {
    await removePassword(sessionCallOf(ctx));
    return { message: "Your password has been removed. All your other sessions have ended." };
  },
  async requireSecondFactor(req, ctx) {
    const backupCodes = await requireSecondFactor(sessionCallOf(ctx), req.required);
    const message = req.required
      ? "A second factor is now required at every sign-in."
      : "A second factor is no longer required at every sign-in.";
    return { message, backupCodes };
  },
  async createPasskeyOptions({ purpose }, ctx) {
    const isRegistration = purpose === "register";
    const call = sessionCallOf(ctx);
    return { options: await createPasskeyOptions(call, isRegistration ? "register" : "confirm") };
  },
  async createPasskey({ credential, name }, ctx) {
    const passkey = await createPasskey(sessionCallOf(ctx), given(credential), name);
    return { passkey: passkeyMessage(passkey) };
  },
  async listPasskeys(_req, ctx) {
    const passkeys = await listOwnPasskeys(sessionCallOf(ctx));
    return { passkeys: passkeys.map(passkeyMessage) };
  },
  async renamePasskey(req, ctx) {
    const passkey = await renameOwnPasskey(sessionCallOf(ctx), req.id, req.name);
    return { passkey: passkeyMessage(passkey) };
  },
  async deletePasskey(req, ctx) {
    const acceptedIds = await removePasskey(sessionCallOf(ctx), req.id);
    return { message: "The passkey has been removed.", acceptedIds };
  },
  async listIdentities(_req, ctx) {
    const call = sessionCallOf(ctx);
    const identities = await listIdentities(call, call.principal.user.id);
    return { identities: identities.map(identityMessage) };
  },
  async deleteIdentity(req, ctx) {
    await disconnectIdentity(sessionCallOf(ctx), req.id);
    return { message: "The provider account has been disconnected." };
  },
  async listDevices(_req, ctx) {
    const call = sessionCallOf(ctx);
    const { user, session } = call.principal;
    return { devices: (await listDevices(call, user.id, session.id)).map(toMessage) };
  },
  async deleteDevice(req, ctx) {
    await forgetDevice(sessionCallOf(ctx), req.id);
    return { message: "The device has been removed." };
  },
  async changeEmail(req, ctx) {
    await changeEmail(sessionCallOf(ctx), req.newEmail, req.password);
    return {
      message: "Please verify your new e-mail address with the link that we have sent to it.",
    };
  },
  async listSessions(_req, ctx) {
    const call = sessionCallOf(ctx);
    const sessions = await listOpenSessions(call, call.principal.user.id, call.clock.now());
    return { sessions: sessions.map((row) => sessionMessage(row, call)) };
  },
  async revokeSession(req, ctx) {
    await revokeOwnSession(sessionCallOf(ctx), req.id);
    return { message: "The session has ended." };
  },
  async revokeOtherSessions(_req, ctx) {
    const ended = await revokeOtherSessions(sessionCallOf(ctx));
    return {
      message: ended === 1 ? "1 other session has ended." : `${ended} other sessions have ended.`,
    };
  },
  async createApiKey(req, ctx) {
    const { apiKey, key } = await createOwnKey(sessionCallOf(ctx), req, req.password);
    return { apiKey: toMessage(apiKey), key };
  },
  async listApiKeys(_req, ctx) {
    const call = sessionCallOf(ctx);
    const keys = await listActiveKeys(call, call.principal.user.id, call.clock.now());
    return { apiKeys: keys.map(toMessage) };
  },
  async revokeApiKey(req, ctx) {
    await revokeOwnKey(sessionCallOf(ctx), req.id);
    return { message: "The API key has been revoked." };
  },
  async deleteAccount(req, ctx) {
    const deletionAt = await deleteAccount(sessionCallOf(ctx), req.password);
    const message = "Your account will be deleted. To keep it, sign in before then.";
    return { message, deletionDate: timestampFromDate(deletionAt) };
  },
  exportData: async ({ page = 1 }, ctx) => ({ data: await exportData(sessionCallOf(ctx), page) }),
};
