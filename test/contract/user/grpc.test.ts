import { timestampDate } from "@bufbuild/protobuf/wkt";
import { Code } from "@connectrpc/connect";
import { expect, test } from "vitest";
import { AuthService } from "../../../gen/gatehouse/account/v1/auth_service_pb.ts";
import { UserService } from "../../../gen/gatehouse/account/v1/user_service_pb.ts";
import { FailureSchema, Reason } from "../../../gen/gatehouse/platform/v1/failure_pb.ts";
import { testApp } from "../../support/app.ts";
import { authenticatorOf } from "../../support/authenticator.ts";
import { errorOf } from "../../support/stub-transports.ts";

const app = await testApp();
const auth = app.grpc(AuthService);
const user = app.grpc(UserService);
const NEW = "Brand-new-2";

/** Expects that a call is refused. */
async function expectRefusal(call: Promise<unknown>, code: Code, reason: Reason): Promise<void> {
  const error = await errorOf(call);
  expect([error.code, error.findDetails(FailureSchema)[0]?.reason]).toEqual([code, reason]);
}

test("gRPC: every operation of an account follows the rules of REST", async () => {
  const account = await app.addUser();
  const { email, password } = account;
  const login = (changes = {}) => auth.login({ email, password, ...changes });
  const bearer = (token: string | undefined) => ({ headers: { authorization: `Bearer ${token}` } });

  const first = await login();
  const headers = bearer(first.accessToken);
  const setup = await auth.setupTotp({}, headers);
  const authenticator = authenticatorOf(app, setup);
  const { tempToken = "", requiresMfa, accessToken } = await login();
  expect([requiresMfa, accessToken]).toEqual([true, undefined]);
  await expectRefusal(auth.verifyMfa({ tempToken, code: "000000" }), Code.Unauthenticated, Reason.INVALID_CODE);
  await expectRefusal(auth.verifyMfa({ tempToken: "x", code: "000000" }), Code.Unauthenticated, Reason.TICKET_INVALID);
  const verified = await auth.verifyMfa({ tempToken, code: await authenticator.code() });
  expect(verified.user?.id).toBe(account.id);
  await expectRefusal(auth.setupTotp({}, headers), Code.FailedPrecondition, Reason.MFA_ALREADY_ENABLED);
  app.clock.advance("30s");
  const { backupCodes } = await auth.createBackupCodes({ password, code: await authenticator.code() }, headers);
  expect(backupCodes).toHaveLength(10);
  await auth.disableTotp({ password, backupCode: backupCodes[0] as string }, headers);
  await expectRefusal(auth.disableTotp({ password }, headers), Code.FailedPrecondition, Reason.MFA_NOT_ENABLED);

  const change = { currentPassword: "Wrong-1-guess", newPassword: password };
  await expectRefusal(user.changePassword(change, headers), Code.InvalidArgument, Reason.INVALID_CURRENT_PASSWORD);
  await user.changePassword({ currentPassword: password, newPassword: `${NEW}-2` }, headers);
  await user.changePassword({ currentPassword: `${NEW}-2`, newPassword: password }, headers);
  const newEmail = `new-${email}`;
  await expectRefusal(
    user.changeEmail({ newEmail, password: "Wrong-1-guess" }, headers),
    Code.InvalidArgument,
    Reason.INVALID_CURRENT_PASSWORD,
  );
  await user.changeEmail({ newEmail, password }, headers);
  const { token = "" } = await app.mail.emailTo(newEmail);
  await auth.verifyEmail({ token });
  await expectRefusal(auth.verifyEmail({ token }), Code.InvalidArgument, Reason.TOKEN_INVALID);
  await auth.forgotPassword({ email: newEmail });
  const reset = (await app.mail.emailTo(newEmail, /Reset/)).token as string;
  await expectRefusal(
    auth.resetPassword({ token: reset, password: newEmail }),
    Code.InvalidArgument,
    Reason.VALIDATION_FAILED,
  );
  await auth.resetPassword({ token: reset, password: NEW });
  await expectRefusal(user.getProfile({}, headers), Code.Unauthenticated, Reason.UNAUTHENTICATED);

  const again = bearer((await login({ email: newEmail, password: NEW })).accessToken);
  const { data } = await user.exportData({}, again);
  expect(data).toMatchObject({ profile: { id: account.id, email: newEmail, emailVerifiedAt: expect.any(String) } });
  const { deletionDate } = await user.deleteAccount({}, again);
  expect(deletionDate && timestampDate(deletionDate) > app.clock.now()).toBe(true);
  expect((await login({ email: newEmail, password: NEW })).restored).toBe(true);
});
