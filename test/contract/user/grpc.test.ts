import { timestampDate } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError } from "@connectrpc/connect";
import { expect, test } from "vitest";
import { AuthService } from "../../../gen/gatehouse/account/v1/auth_service_pb.ts";
import { UserService } from "../../../gen/gatehouse/account/v1/user_service_pb.ts";
import { FailureSchema, Reason } from "../../../gen/gatehouse/platform/v1/failure_pb.ts";
import { testApp } from "../../support/app.ts";
import { authenticatorOf } from "../../support/authenticator.ts";

const app = await testApp();
const auth = app.grpc(AuthService);
const user = app.grpc(UserService);
const NEW = "Brand-new-2";

/** The code and reason of a refused call. */
async function refusal(call: Promise<unknown>): Promise<[Code, Reason | undefined]> {
  const error = ConnectError.from(
    await call.then(
      () => "no refusal",
      (thrown: unknown) => thrown,
    ),
  );
  return [error.code, error.findDetails(FailureSchema)[0]?.reason];
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
  expect(await refusal(auth.verifyMfa({ tempToken, code: "000000" }))).toEqual([
    Code.Unauthenticated,
    Reason.INVALID_CODE,
  ]);
  expect(await refusal(auth.verifyMfa({ tempToken: "x", code: "000000" }))).toEqual([
    Code.Unauthenticated,
    Reason.TICKET_INVALID,
  ]);
  const verified = await auth.verifyMfa({ tempToken, code: await authenticator.code() });
  expect(verified.user?.id).toBe(account.id);
  expect(await refusal(auth.setupTotp({}, headers))).toEqual([Code.FailedPrecondition, Reason.MFA_ALREADY_ENABLED]);
  app.clock.advance("30s");
  const { backupCodes } = await auth.createBackupCodes({ password, code: await authenticator.code() }, headers);
  expect(backupCodes).toHaveLength(10);
  await auth.disableTotp({ password, backupCode: backupCodes[0] as string }, headers);
  expect(await refusal(auth.disableTotp({ password }, headers))).toEqual([
    Code.FailedPrecondition,
    Reason.MFA_NOT_ENABLED,
  ]);

  const change = { currentPassword: "Wrong-1-guess", newPassword: password };
  expect(await refusal(user.changePassword(change, headers))).toEqual([
    Code.InvalidArgument,
    Reason.INVALID_CURRENT_PASSWORD,
  ]);
  await user.changePassword({ currentPassword: password, newPassword: `${NEW}-2` }, headers);
  await user.changePassword({ currentPassword: `${NEW}-2`, newPassword: password }, headers);
  const newEmail = `new-${email}`;
  expect(await refusal(user.changeEmail({ newEmail, password: "Wrong-1-guess" }, headers))).toEqual([
    Code.InvalidArgument,
    Reason.INVALID_CURRENT_PASSWORD,
  ]);
  await user.changeEmail({ newEmail, password }, headers);
  const { token = "" } = await app.mail.emailTo(newEmail);
  await auth.verifyEmail({ token });
  expect(await refusal(auth.verifyEmail({ token }))).toEqual([Code.InvalidArgument, Reason.TOKEN_INVALID]);
  await auth.forgotPassword({ email: newEmail });
  const reset = (await app.mail.emailTo(newEmail, /Reset/)).token as string;
  expect(await refusal(auth.resetPassword({ token: reset, password: newEmail }))).toEqual([
    Code.InvalidArgument,
    Reason.VALIDATION_FAILED,
  ]);
  await auth.resetPassword({ token: reset, password: NEW });
  expect(await refusal(user.getProfile({}, headers))).toEqual([Code.Unauthenticated, Reason.UNAUTHENTICATED]);

  const again = bearer((await login({ email: newEmail, password: NEW })).accessToken);
  const { data } = await user.exportData({}, again);
  expect(data).toMatchObject({ profile: { id: account.id, email: newEmail, emailVerifiedAt: expect.any(String) } });
  const { deletionDate } = await user.deleteAccount({}, again);
  expect(deletionDate && timestampDate(deletionDate) > app.clock.now()).toBe(true);
  expect((await login({ email: newEmail, password: NEW })).restored).toBe(true);
});
