import { test as base, describe, expect } from "vitest";
import { AuthService } from "../../../gen/gatehouse/account/v1/auth_service_pb.ts";
import { freshEmail } from "../../support/accounts.ts";
import { testApp } from "../../support/app.ts";
import { statusesOf, tally, times } from "../../support/tally.ts";
import { compareTimes, cycle, type Times } from "./compare-times.ts";

const app = await testApp();
const test = base.extend("user", () => app.addUser());
const emailsOf = (userId: string) => app.sql("select id from emails where user_id = ?", [userId]);

describe.each(["/auth/forgot-password", "/auth/resend-verification"])("POST %s", (path) => {
  const subject = path.endsWith("password") ? /Reset your password/ : /Verify your e-mail address/;

  test("returns the same status, body and header names for known and unknown addresses, over gRPC too", async () => {
    const user = await app.addUser();
    const answers = [];
    for (const email of [user.email, freshEmail()])
      answers.push(await app.httpClient().post(path, { email }));
    const [known, absent] = answers.map(({ status, body, headers }) => ({
      status,
      body,
      names: [...headers.keys()],
    }));
    expect(known).toMatchObject({ status: 200, body: { message: expect.any(String) } });
    expect(absent).toEqual(known);
    const client = app.grpc(AuthService);
    const ask = path.endsWith("password") ? client.forgotPassword : client.resendVerification;
    const { message } = known?.body ?? {};
    for (const email of [user.email, freshEmail()])
      expect(await ask({ email })).toMatchObject({ message });
    expect((await app.mail.emailTo(user.email, subject)).token).toHaveLength(43);
  });

  test("takes the same time for known and unknown addresses", async () => {
    const users = await Promise.all(times(12, () => app.addUser()));
    for (const { email } of users) await app.mail.emailTo(email); // no mail is in delivery meanwhile
    const ask = (email: string) => () => app.httpClient().post(path, { email });
    const isAlike = ({ one, apart }: Times) => apart < one * 0.15;
    const known = cycle(users.map(({ email }) => ask(email)));
    expect(await compareTimes(12, known, () => ask(freshEmail())(), isAlike)).toSatisfy(isAlike);
  });

  test("sends no e-mail once the account's deletion date has passed", async ({ user }) => {
    await app.sql("update users set deletion_at = '2000-01-01' where id = ?", [user.id]);
    await app.httpClient().post(path, { email: user.email });
    expect((await emailsOf(user.id)).length).toBeLessThan(2);
  });

  test("accepts three requests an hour per address and account", async ({ user }) => {
    const httpClient = app.httpClient();
    await httpClient.post("/auth/login", user.credentials); // login has another limit
    for (const status of [200, 200, 200, 429])
      expect((await httpClient.post(path, { email: user.email })).status).toBe(status);
    expect((await httpClient.post(path, { email: freshEmail() })).status).toBe(200);
  });

  test("ignores Host and forwarded headers for the link", async ({ user }) => {
    await app.mail.emailTo(user.email, /Verify/);
    const proxied = { "x-forwarded-host": "evil.example", "x-forwarded-proto": "gopher" };
    const forged = { ...proxied, forwarded: "host=evil.example", origin: "http://evil.example" };
    await app.httpClient().send("POST", path, { email: user.email }, forged);
    await expect.poll(async () => (await app.mail.emailsTo(user.email)).length).toBe(2);
    for (const mail of await app.mail.emailsTo(user.email)) {
      expect(mail.link).toMatch(/^http:\/\/gatehouse\.test\/(verify-email|reset-password)#token=/);
      expect(JSON.stringify(mail)).not.toContain("evil.example");
    }
  });
});

test("POST /auth/resend-verification: invalidates the older token, and sends nothing to a verified address", async ({
  user,
}) => {
  const first = await app.mail.emailTo(user.email);
  await app.httpClient().post("/auth/resend-verification", { email: user.email });
  await expect.poll(async () => (await app.mail.emailsTo(user.email)).length).toBe(2);
  const second = (await app.mail.emailsTo(user.email)).find(({ token }) => token !== first.token);
  const verify = async (token: unknown) => (await app.verifyEmail(token)).status;
  expect(await verify(first.token)).toBe(400);
  expect(await verify(second?.token)).toBe(200);
  await app.httpClient().post("/auth/resend-verification", { email: user.email });
  expect(await emailsOf(user.id)).toHaveLength(2);
});

test("POST /auth/resend-verification: sends at most five e-mails an hour, whatever the address of the client; the last link is valid", async ({
  user,
}) => {
  const ask = () => app.httpClient().post("/auth/resend-verification", { email: user.email });
  expect(await statusesOf(10, ask)).toEqual({ 200: 10 });
  expect(await emailsOf(user.id)).toHaveLength(5);
  const queued = () =>
    app.sql("select id from emails where user_id = ? and next_attempt_at is not null", [user.id]);
  await expect.poll(queued).toEqual([]); // sent, or given up because a newer link replaced theirs
  const tokens = (await app.mail.emailsTo(user.email)).map(({ token }) => token);
  const verified = await Promise.all(tokens.map((token) => app.verifyEmail(token)));
  expect(tally(verified, (a) => a.status)).toEqual({ 200: 1, 400: tokens.length - 1 });
});

test("POST /auth/forgot-password: sends the same token for five minutes, and at most five e-mails an hour", async ({
  user,
}) => {
  const ask = () => app.httpClient().post("/auth/forgot-password", { email: user.email });
  const tokens = async (n: number) => {
    const resets = async () =>
      (await app.mail.emailsTo(user.email)).filter(({ subject = "" }) => /Reset/.test(subject));
    await expect.poll(resets).toHaveLength(n);
    return [...new Set((await resets()).map(({ token }) => token))];
  };
  await ask();
  const [first] = await tokens(1);
  app.clock.advance("290s");
  expect(await statusesOf(10, ask)).toEqual({ 200: 10 });
  expect(await tokens(5)).toEqual([first]);
  app.clock.advance("1h");
  await ask();
  const [, second] = await tokens(6);
  expect((await app.resetPassword(first)).status).toBe(400);
  expect((await app.resetPassword(second)).status).toBe(200);
  await ask();
  await tokens(7);
  await app.sql("update one_time_tokens set expires_at = created_at where user_id = ?", [user.id]);
  await ask();
  expect(await tokens(8)).toHaveLength(4); // the expired one is not mailed again
});
