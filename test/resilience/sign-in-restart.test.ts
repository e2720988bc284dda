// Sign-ins that begin at one process and end at others, some of which were killed meanwhile.

import { createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { expect, test } from "vitest";
import { AuthService } from "../../gen/gatehouse/account/v1/auth_service_pb.ts";
import {
  CLIENT,
  type SimulatedAccount,
  startSignInProvider,
} from "../../scripts/simulators/sign-in-provider.ts";
import { accountsAt, createAccounts } from "../support/accounts.ts";
import { createAuthenticator } from "../support/authenticator.ts";
import { createDatabase, runSql } from "../support/database/databases.ts";
import { createHttpClient, type HttpResponse, sendHttp } from "../support/http/client.ts";
import { smtpMailbox } from "../support/mail/mailbox.ts";
import { freePort } from "../support/network/sockets.ts";
import { type Process, sharedVariables, startProcess } from "../support/processes/processes.ts";
import { describeIf, forSuite } from "../support/suites.ts";
import { tally, times } from "../support/tally.ts";

const APP_URL = "http://gatehouse.test";

describeIf(process.env.TEST_SERVERS, "Sign-ins over two processes", async () => {
  const provider = await forSuite(startSignInProvider());
  const mail = await forSuite(smtpMailbox());
  const env = {
    ...sharedVariables(),
    APP_URL,
    DATABASE_URL: await createDatabase(),
    SMTP_URL: mail.url,
    RATE_LIMITS: "off",
    EMAIL_SIGN_IN: "code",
    GOOGLE_CLIENT_ID: CLIENT.id,
    GOOGLE_CLIENT_SECRET: CLIENT.secret,
    GOOGLE_ISSUER: provider.issuer,
  };
  const running: { process: Process; grpcPort: string }[] = [];
  await forSuite({ close: () => Promise.all(running.map((each) => each.process.close())) });
  const begin = async () => {
    const grpcPort = await freePort();
    return { process: await startProcess({ ...env, GRPC_PORT: grpcPort }), grpcPort };
  };
  running.push(await begin()); // alone, since it migrates
  running.push(await begin());
  const at = (i: number) => running[i % 2]?.process.url as string;
  const grpcAt = (i: number) =>
    createClient(
      AuthService,
      createGrpcTransport({ baseUrl: `http://127.0.0.1:${running[i % 2]?.grpcPort}` }),
    );
  /** Kills a process and starts another one in its place. */
  async function replace(i: number) {
    await running[i]?.process.end("SIGKILL");
    running[i] = await begin();
  }
  const sql = <T>(text: string, values: unknown[] = []) =>
    runSql<T>(env.DATABASE_URL, text, values);
  const sessionsOf = async (userId: string) =>
    (await sql("select 1 from sessions where user_id = $1", [userId])).length;
  const addUser = () =>
    createAccounts({ httpClient: () => createHttpClient(at(0)), mail }).addVerifiedUser();
  const post = (i: number, path: string, body: object, cookie = "") =>
    sendHttp(at(i), "POST", path, body, cookie ? { cookie } : {});

  /** Begins an exchange at the first process, in a new browser. */
  async function answerOf(account: SimulatedAccount) {
    const browser = createHttpClient(at(0));
    const { body } = await browser.post("/auth/start-external", {
      provider: "google",
      acceptTerms: true,
    });
    const answer = { provider: "google", ...provider.authorize(body.authorizationUrl, account) };
    return { answer, device: browser.cookies.get("device") as string };
  }

  test("with a provider: an exchange that began at a killed process opens one session, for 50 callers at both processes and on both ports", async () => {
    const account = {
      sub: crypto.randomUUID(),
      email: `${crypto.randomUUID()}@gmail.com`,
      email_verified: true,
      name: "Ann",
    };
    const { answer, device } = await answerOf(account);
    await replace(0);
    const finish = (i: number): Promise<HttpResponse | { status: number }> =>
      i % 5
        ? post(i, "/auth/finish-external", answer, `device=${device}`)
        : grpcAt(i)
            .finishExternal({ ...(answer as object), provider: "google", deviceToken: device })
            .then(
              () => ({ status: 200 }),
              () => ({ status: 401 }),
            );
    const answers = await Promise.all(times(50, finish));
    expect(tally(answers, ({ status }) => status)).toEqual({ 200: 1, 401: 49 });
    expect(provider.requests.filter(({ endpoint }) => endpoint === "token")).toHaveLength(1);
    const [user] = await sql<{ id: string }>("select id from users where email = $1", [
      account.email,
    ]);
    expect(await sessionsOf(user?.id as string)).toBe(1);
    await replace(1);
    expect((await finish(1)).status).toBe(401); // a used code stays used
  });

  test("with a passkey: options of a killed process open one session, for 50 callers at both processes", async () => {
    const user = await addUser();
    const account = await accountsAt(at(0)).signIn(user);
    const authenticator = createAuthenticator();
    const { body: registering } = await account.post("/user/passkeys/options", {
      purpose: "register",
    });
    const made = authenticator.create(registering.options);
    await replace(0);
    const added = await createHttpClient(at(1)).post(
      "/user/passkeys",
      { credential: made },
      account.accessToken,
    );
    expect(added.status).toBe(201);
    const { body } = await post(0, "/auth/passkey-options", {});
    const credential = authenticator.get(body.options);
    await replace(0);
    const before = await sessionsOf(user.id);
    const answers = await Promise.all(
      times(50, (i) => post(i, "/auth/verify-passkey", { credential })),
    );
    expect(tally(answers, ({ status }) => status)).toEqual({ 200: 1, 401: 49 });
    expect((await sessionsOf(user.id)) - before).toBe(1);
  });

  test("with a code: of 50 guesses at both processes five count, even while one is killed", async () => {
    const user = await addUser();
    const { email } = user;
    await post(0, "/auth/email-code", { email });
    const { text = "" } = await mail.emailTo(email, /sign-in code/);
    const [, code = ""] = /Your code is (\d{6})/.exec(text) ?? [];
    const wrong = code === "000000" ? "000001" : "000000";
    const guess = (i: number) =>
      post(i, "/auth/verify-email-code", { email, code: wrong }).catch(() => ({ status: 0 }));
    const [answers] = await Promise.all([Promise.all(times(50, guess)), replace(0)]);
    expect(answers.filter(({ status }) => ![401, 0].includes(status))).toEqual([]);
    const [token] = await sql<{ failed: number }>(
      "select failed from one_time_tokens where user_id = $1 and kind = 'email-code'",
      [user.id],
    );
    expect(token?.failed).toBe(5);
    for (const i of [0, 1])
      expect((await post(i, "/auth/verify-email-code", { email, code })).status).toBe(401);
  });

  test("reported by the link in the e-mail: it works once at both processes, after a changed password and a restart, and ends sessions at both", async () => {
    const user = await addUser();
    await accountsAt(at(0)).signIn(user); // the first one is not reported
    const thief = await createAccounts({
      httpClient: () => createHttpClient(at(0), "198.51.100.7"),
    }).signIn(user);
    const { token } = await mail.emailTo(user.email, /New sign-in/);
    const newPassword = "Evil-pass-99";
    const changed = await thief.post("/user/change-password", {
      currentPassword: user.password,
      newPassword,
    });
    expect(changed.status).toBe(200);
    await replace(0);
    const form = { token, email: user.email };
    const answers = await Promise.all(times(20, (i) => post(i, "/auth/not-me", form)));
    expect(tally(answers, ({ status }) => status)).toEqual({ 200: 1, 400: 19 });
    for (const i of [0, 1]) {
      expect((await createHttpClient(at(i)).get("/user/profile", thief.accessToken)).status).toBe(
        401,
      );
      const again = await post(i, "/auth/login", { email: user.email, password: newPassword });
      expect(again.status).toBe(401);
    }
  });
});
