import { timestampDate } from "@bufbuild/protobuf/wkt";
import { Code } from "@connectrpc/connect";
import { expect, test } from "vitest";
import { AuthService } from "../../../gen/gatehouse/account/v1/auth_service_pb.ts";
import { UserService } from "../../../gen/gatehouse/account/v1/user_service_pb.ts";
import { FailureSchema, Reason } from "../../../gen/gatehouse/platform/v1/failure_pb.ts";
import { NEW_PASSWORD as NEW, WRONG_PASSWORD } from "../../support/accounts.ts";
import { testApp } from "../../support/app.ts";
import { bearer } from "../../support/http/client.ts";
import { errorOf } from "../../support/http/stub-services.ts";

const app = await testApp();
const auth = app.grpc(AuthService);
const user = app.grpc(UserService);

/** Expects that a call is refused. */
async function expectRefusal(
  call: Promise<unknown>,
  code: Code,
  reason: keyof typeof Reason,
): Promise<void> {
  const error = await errorOf(call);
  expect([error.code, error.findDetails(FailureSchema)[0]?.reason]).toEqual([code, Reason[reason]]);
}
const { InvalidArgument, Unauthenticated, FailedPrecondition } = Code;

test("gRPC: every account operation follows the rules of REST", async () => {
  const account = await app.addUser();
  const { email, password } = account;
  const login = (changes = {}) => auth.login({ email, password, ...changes });
  const as = (token: string | undefined) => ({ headers: bearer(token) });

  const mine = as((await login()).accessToken);
  const authenticator = app.authenticatorOf(await auth.setupTotp({}, mine));
  const { tempToken = "", requiresMfa, accessToken } = await login();
  expect([requiresMfa, accessToken]).toEqual([true, undefined]);
  const code = "000000";
  await expectRefusal(auth.verifyMfa({ tempToken, code }), Unauthenticated, "INVALID_CODE");
  await expectRefusal(auth.verifyMfa({ tempToken: "x", code }), Unauthenticated, "TICKET_INVALID");
  const verified = await auth.verifyMfa({ tempToken, code: await authenticator.code() });
  expect(verified.user?.id).toBe(account.id);
  await expectRefusal(auth.setupTotp({}, mine), FailedPrecondition, "MFA_ALREADY_ENABLED");
  app.clock.advance("30s");
  const { backupCodes } = await auth.createBackupCodes(
    { password, code: await authenticator.code() },
    mine,
  );
  expect(backupCodes).toHaveLength(10);
  await auth.disableTotp({ password, backupCode: backupCodes[0] as string }, mine);
  await expectRefusal(auth.disableTotp({ password }, mine), FailedPrecondition, "MFA_NOT_ENABLED");

  const wrong = { currentPassword: WRONG_PASSWORD, newPassword: password };
  await expectRefusal(
    user.changePassword(wrong, mine),
    InvalidArgument,
    "INVALID_CURRENT_PASSWORD",
  );
  await user.changePassword({ currentPassword: password, newPassword: `${NEW}-2` }, mine);
  await user.changePassword({ currentPassword: `${NEW}-2`, newPassword: password }, mine);
  const newEmail = `new-${email}`;
  const guess = user.changeEmail({ newEmail, password: WRONG_PASSWORD }, mine);
  await expectRefusal(guess, InvalidArgument, "INVALID_CURRENT_PASSWORD");
  await user.changeEmail({ newEmail, password }, mine);
  const { token = "" } = await app.mail.emailTo(newEmail);
  await auth.verifyEmail({ token });
  await expectRefusal(auth.verifyEmail({ token }), InvalidArgument, "TOKEN_INVALID");
  await auth.forgotPassword({ email: newEmail });
  const reset = (await app.mail.emailTo(newEmail, /Reset/)).token as string;
  await expectRefusal(
    auth.resetPassword({ token: reset, password: newEmail }),
    InvalidArgument,
    "VALIDATION_FAILED",
  );
  await auth.resetPassword({ token: reset, password: NEW });
  await expectRefusal(user.getProfile({}, mine), Unauthenticated, "UNAUTHENTICATED");

  const again = as((await login({ email: newEmail, password: NEW })).accessToken);
  await login({ email: newEmail, password: NEW });
  const { sessions } = await user.listSessions({}, again);
  expect(sessions.map(({ current }) => current)).toEqual([false, true]);
  const [{ id: foreign }] = await (await app.signIn()).sessions();
  await expectRefusal(user.revokeSession({ id: foreign }, again), Code.NotFound, "NOT_FOUND");
  await user.revokeOtherSessions({}, again);
  expect((await user.listSessions({}, again)).sessions).toHaveLength(1);
  const { data } = await user.exportData({}, again);
  expect(data).toMatchObject({
    profile: { id: account.id, email: newEmail, emailVerifiedAt: expect.any(String) },
  });
  const { deletionDate } = await user.deleteAccount({}, again);
  expect(deletionDate && timestampDate(deletionDate) > app.clock.now()).toBe(true);
  expect((await login({ email: newEmail, password: NEW })).restored).toBe(true);
});
