// Accounts that are suspended, reset or erased while somebody signs in to them, in every way and on
// both ports.

import { Code } from "@connectrpc/connect";
import { describe, expect, test } from "vitest";
import { AuthService } from "../../../gen/gatehouse/account/v1/auth_service_pb.ts";
import type { SignedIn, TestUser } from "../../support/accounts.ts";
import { createAuthenticator } from "../../support/authenticator.ts";
import { type Answer, googleAccount, startExternalApp } from "../../support/external.ts";
import type { HttpClient } from "../../support/http/client.ts";
import { passkeyActions } from "../../support/passkeys.ts";
import { repetitions, times } from "../../support/tally.ts";

const env = { EMAIL_SIGN_IN: "code", RATE_LIMITS: "off" };
const { app, answerOf, finish, prove, start } = await startExternalApp(env);
const passkeys = passkeyActions(app);
const grpc = app.grpc(AuthService);

/** What a sign-in has opened: the tokens of a session, or nothing. */
type Opened = { userId?: string; accessToken?: string; refreshToken?: string } | undefined;
type SignIn = () => Promise<Opened>;

const opened = ({ body }: { body: { user?: { id: string } } & object }): Opened => ({
  ...body,
  ...(body.user && { userId: body.user.id }),
});
const openedBy = (call: Promise<{ user?: { id: string } | undefined } & object>): Promise<Opened> =>
  call.then(
    (body) => opened({ body: body as { user?: { id: string } } }),
    (error: { code: Code }) => {
      expect([Code.Unknown, Code.Internal]).not.toContain(error.code);
      return undefined;
    },
  );

const deviceOf = (browser: HttpClient) => browser.cookies.get("device") ?? "";

/** Finishes a sign-in by a provider over gRPC. */
const finishByGrpc = (answer: Answer, deviceToken: string) =>
  grpc.finishExternal({ ...answer, deviceToken });

/** Sign-ins of an account that have begun, each of which would open it. */
const WAYS: { way: string; begin: (account: SignedIn) => Promise<SignIn[]> }[] = [
  {
    way: "a provider",
    async begin({ browser, post }) {
      const account = googleAccount();
      const identityToken = await prove(browser, account);
      expect((await post("/auth/connect-identity", { identityToken })).status).toBe(201);
      return Promise.all(
        times(4, async (i) => {
          const own = app.httpClient();
          const answer = await answerOf(own, account);
          return i % 2
            ? async () => opened(await finish(own, answer))
            : () => openedBy(finishByGrpc(answer, deviceOf(own)));
        }),
      );
    },
  },
  {
    way: "a code by e-mail",
    async begin({ user: { email } }) {
      await app.httpClient().post("/auth/email-code", { email });
      const { text = "" } = await app.mail.emailTo(email, /sign-in code/);
      const [, code = ""] = /Your code is (\d{6})/.exec(text) ?? [];
      return times(
        4,
        (i): SignIn =>
          i % 2
            ? async () =>
                opened(await app.httpClient().post("/auth/verify-email-code", { email, code }))
            : () => openedBy(grpc.verifyEmailCode({ email, code })),
      );
    },
  },
  {
    way: "a passkey",
    async begin(account) {
      const authenticator = createAuthenticator();
      expect((await passkeys.register(account, authenticator)).status).toBe(201);
      return Promise.all(
        times(4, async (i) => {
          const credential = authenticator.get(await passkeys.signInOptions());
          return i % 2
            ? async () => opened(await passkeys.verify(credential))
            : () => openedBy(grpc.verifyPasskey({ credential }));
        }),
      );
    },
  },
  {
    way: "the second step of a login",
    async begin(account) {
      const authenticator = createAuthenticator();
      expect((await passkeys.register(account, authenticator)).status).toBe(201);
      const { body } = await account.put("/user/second-factor", { required: true });
      const [backupCode, another] = body.backupCodes;
      const tempToken = await app.mfaTokenFor(account.user);
      const credential = authenticator.get(await passkeys.signInOptions(tempToken));
      return [
        async () => opened(await app.verifyMfa(tempToken, { backupCode })),
        () => openedBy(grpc.verifyMfa({ tempToken, backupCode: another })),
        async () => opened(await passkeys.verify(credential, tempToken)),
      ];
    },
  },
];

type Admin = Awaited<ReturnType<typeof app.signInAdmin>>;
const ENDS: { end: string; make: (admin: Admin, user: TestUser) => Promise<{ status: number }> }[] =
  [
    {
      end: "suspended",
      make: ({ put }, { id }) => put(`/admin/users/${id}`, { suspended: true }),
    },
    { end: "reset", make: ({ post }, { id }) => post(`/admin/users/${id}/reset-access`) },
    { end: "erased", make: (admin, { id }) => admin.delete(`/admin/users/${id}`) },
  ];
const CASES = ENDS.flatMap((end) => WAYS.map((way) => ({ ...end, ...way })));

/** Expects that no session of an account is open. */
async function expectNothingOpen(user: TestUser, results: Opened[]) {
  for (const { userId, accessToken, refreshToken } of results.filter(
    (each) => each !== undefined,
  )) {
    if (userId !== user.id) continue; // a provider's account may have become another one
    expect(await app.profileStatus(accessToken as string)).toBe(401);
    expect((await app.refresh(refreshToken)).status).toBe(401);
  }
  const open =
    "select 1 from sessions where user_id = ? and revoked_at is null and actor_id is null and expires_at > ?";
  expect(await app.sql(open, [user.id, app.clock.now()])).toEqual([]);
}

describe("A sign-in in progress", () => {
  test.for(CASES)("by $way leaves no open session of an account that is $end", async (each) => {
    const admin = await app.signInAdmin();
    for (let round = 0; round < repetitions(1); round++) {
      const account = await app.signIn(await app.addVerifiedUser());
      const { user } = account;
      const [first, ...others] = await each.begin(account);
      const [ended, ...results] = await Promise.all([
        each.make(admin, user),
        ...others.map((signIn) => signIn()),
      ]);
      expect(ended.status).toBe(200);
      await expectNothingOpen(user, results);
      const late = await first?.();
      expect(late?.userId).not.toBe(user.id);
      await expectNothingOpen(user, [late]);
    }
  });
});

test("AuthService/FinishExternal: rejects the device token of another browser, an invalid one and an empty one", async () => {
  const [browser, other] = [app.httpClient(), app.httpClient()];
  await start(other);
  const answer = await answerOf(browser, googleAccount());
  const own = deviceOf(browser);
  for (const deviceToken of [
    deviceOf(other),
    `${own}A`,
    own.replace(/^./, "_"),
    "",
    "x".repeat(43),
  ])
    await expect(finishByGrpc(answer, deviceToken)).rejects.toMatchObject({
      code: Code.Unauthenticated,
    });
  expect((await finishByGrpc(answer, own)).user?.id).toBeDefined();
});

test("POST /auth/finish-external: rejects a response while the device cookie is another or missing, and accepts it once with the right one", async () => {
  const [browser, other] = [app.httpClient(), app.httpClient()];
  await start(other);
  const answer = await answerOf(browser, googleAccount());
  const own = deviceOf(browser);
  browser.keep(`device=${deviceOf(other)}`);
  expect((await finish(browser, answer)).body.code).toBe("EXTERNAL_FAILED");
  browser.cookies.delete("device");
  expect((await finish(browser, answer)).body.code).toBe("EXTERNAL_FAILED");
  browser.keep(`device=${own}`);
  expect((await finish(browser, answer)).status).toBe(200);
  expect((await finish(browser, answer)).body.code).toBe("EXTERNAL_FAILED"); // once
});
