import { randomUUID } from "node:crypto";
import { expect, test } from "vitest";
import { NEW_PASSWORD, PASSWORD, type TestUser } from "../../support/accounts.ts";
import { testApp } from "../../support/app.ts";
import { begin } from "../../support/database/transaction.ts";
import { refusal } from "../../support/http/responses.ts";
import { tally, times } from "../../support/tally.ts";
import { until } from "../../support/until.ts";

const app = await testApp();
const { refresh, profileStatus: profile } = app;
const refused = refusal(401, "REFRESH_TOKEN_INVALID");
const onServers = test.runIf(app.mode !== "embedded");

test("POST /auth/refresh: returns a new pair and sets the cookie", async () => {
  const { browser, refreshToken, accessToken } = await app.signIn();
  app.clock.advance("1s");
  const { status, body, headers } = await browser.post("/auth/refresh");
  expect([status, Object.keys(body).sort()]).toEqual([200, ["accessToken", "refreshToken"]]);
  expect(body.refreshToken).not.toBe(refreshToken);
  expect(body.accessToken).not.toBe(accessToken);
  expect(headers.get("set-cookie")).toContain(`refreshToken=${body.refreshToken}; Max-Age=604`);
  expect(await profile(body.accessToken)).toBe(200);
});

test("POST /auth/refresh: 32 concurrent callers rotate once and get the same successor", async () => {
  const { user, refreshToken } = await app.signIn();
  const answers = await Promise.all(times(32, () => refresh(refreshToken)));
  expect(tally(answers, (a) => a.status)).toEqual({ 200: 32 });
  expect(new Set(answers.map((a) => a.body.refreshToken)).size).toBe(1);
  expect(new Set(answers.map((a) => a.body.accessToken)).size).toBe(1);
  const rows = await app.sql("select generation, revoked_at from sessions where user_id = ?", [
    user.id,
  ]);
  expect(rows).toEqual([{ generation: 1, revoked_at: null }]);
});

test("POST /auth/refresh: returns the same pair again within the grace period, even if the old access token was used", async () => {
  const { refreshToken, accessToken } = await app.signIn();
  const lost = await refresh(refreshToken);
  app.clock.advance("9s");
  expect(await profile(accessToken)).toBe(200);
  const again = await refresh(refreshToken);
  expect(again.body).toEqual(lost.body);
  expect(await profile(again.body.accessToken)).toBe(200);
});

/** What ends the grace period, in which an old refresh token gets the same successor again. */
const GRACE_ENDS = [
  {
    after: "the next access token was used",
    end: async (next: { accessToken: string }) => expect(await profile(next.accessToken)).toBe(200),
  },
  {
    after: "the next refresh token was used",
    end: async (next: { refreshToken: string }) =>
      expect((await refresh(next.refreshToken)).status).toBe(200),
  },
  { after: "eleven seconds", end: async () => app.clock.advance("11s") },
];

test.for(GRACE_ENDS)(
  "POST /auth/refresh: an old token ends the session once $after",
  async ({ end }) => {
    const { user, refreshToken, accessToken } = await app.signIn();
    const { body: next } = await refresh(refreshToken);
    await end(next);
    expect(await refresh(refreshToken)).toMatchObject(refused);
    for (const token of [next.accessToken, accessToken]) expect(await profile(token)).toBe(401);
    expect((await refresh(next.refreshToken)).status).toBe(401);
    const mail = await app.mail.emailTo(user.email, /ended for your security/);
    expect(mail.text).toContain("An old token of your session (node) was used again");
    expect(mail.text).toContain("We have ended that session");
  },
);

onServers(
  "POST /auth/refresh: a request whose caller has disconnected does not end the session",
  async () => {
    const { user, refreshToken } = await app.signIn();
    const { body: next } = await refresh(refreshToken);
    expect(await profile(next.accessToken)).toBe(200);
    const url = app.settings.DATABASE_URL as string;
    const others = await begin(url, "select 1 from users where id = $1 for no key update", [
      user.id,
    ]);
    const client = new AbortController();
    const requestId = randomUUID();
    const headers = { cookie: `refreshToken=${refreshToken}`, "x-request-id": requestId };
    const late = fetch(`${app.url}/auth/refresh`, {
      method: "POST",
      headers,
      signal: client.signal,
    });
    late.catch(() => {});
    const isLogged = (what: string) =>
      until(what, () => app.logs.some((l) => l.includes(requestId) && l.includes(what)));
    await others.toBeWaitedFor();
    client.abort();
    await isLogged('"status":499');
    expect(await profile(next.accessToken)).toBe(200); // on the same connection, after the disconnect is known
    await others.commit();
    await isLogged('"rpc"');
    expect(await profile(next.accessToken)).toBe(200);
  },
);

test("POST /auth/refresh: rejects a token 7 days after the last refresh", async () => {
  const { refreshToken } = await app.signIn();
  app.clock.advance("6d");
  const { status, body } = await refresh(refreshToken);
  expect(status).toBe(200);
  app.clock.advance("7d");
  expect(await refresh(body.refreshToken)).toMatchObject(refused);
});

test("POST /auth/refresh: rejects every token 30 days after the sign-in", async () => {
  let token = (await app.signIn()).refreshToken;
  for (let day = 6; day <= 24; day += 6) {
    app.clock.advance("6d");
    token = (await refresh(token)).body.refreshToken;
  }
  app.clock.advance("6d");
  expect(await refresh(token)).toMatchObject(refused);
});

type Ending = {
  method: string;
  path: string;
  /** Whose session the request ends. */
  ends: "the caller's session" | "the other sessions";
  body?: (user: TestUser) => object | Promise<object>;
};
const ENDINGS: Ending[] = [
  { method: "POST", path: "/auth/logout", ends: "the caller's session" },
  { method: "POST", path: "/user/delete-account", ends: "the caller's session" },
  { method: "DELETE", path: "/user/sessions", ends: "the other sessions" },
  {
    method: "POST",
    path: "/user/change-password",
    ends: "the other sessions",
    body: () => ({ currentPassword: PASSWORD, newPassword: NEW_PASSWORD }),
  },
  {
    method: "POST",
    path: "/auth/reset-password",
    ends: "the caller's session",
    body: async ({ email }) => ({
      token: await app.resetTokenFor(email),
      password: NEW_PASSWORD,
    }),
  },
];

test.for(ENDINGS)(
  "POST /auth/refresh: never succeeds once $method $path has ended $ends",
  async ({ method, path, ends, body }) => {
    for (let round = 0; round < 10; round++) {
      const { user, refreshToken, headers } = await app.signIn();
      const caller = ends === "the other sessions" ? (await app.signIn(user)).headers : headers;
      const content = await body?.(user);
      const [end, ...racers] = await Promise.all([
        app.httpClient().send(method, path, content, caller),
        ...times(4, () => refresh(refreshToken)),
      ]);
      expect(end?.status).toBe(200);
      const successors = racers.filter((a) => a.status === 200).map((a) => a.body);
      for (const token of [refreshToken, ...successors.map((body) => body.refreshToken)])
        expect((await refresh(token)).status).toBe(401);
      for (const body of successors) expect(await profile(body.accessToken)).toBe(401);
    }
  },
);
