// The product with simulated sign-in providers, and what tests do with them, over REST.

import { randomInt, randomUUID } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { exportPKCS8, generateKeyPair, jwtVerify } from "jose";
import {
  CLIENT,
  type SimulatedAccount,
  startSignInProvider,
} from "../../scripts/simulators/sign-in-provider.ts";
import { startSuiteApp, type TestApp } from "./app.ts";
import type { HttpClient } from "./http/client.ts";
import { forSuite } from "./suites.ts";
import { temporaryFolder } from "./temporary-folder.ts";

/** What a provider has returned, for POST /auth/finish-external. */
export type Answer = {
  provider: string;
  code?: string;
  state: string;
  iss?: string;
  error?: string;
  user?: string;
};

type Options = { provider?: string; purpose?: string; returnTo?: string; acceptTerms?: boolean };

const keyOf = (prefix: string) => ({
  [`${prefix}_CLIENT_ID`]: CLIENT.id,
  [`${prefix}_CLIENT_SECRET`]: CLIENT.secret,
});

/** The page of another front end, and an app. */
export const RETURN_URLS = ["https://front.example/external", "com.example.app:/external"];

/**
 * Starts the product with `google` and `github` at one simulated provider, `microsoft` at another,
 * and the team's own `acme`, `staff` and `school`, whose addresses are trusted, at a third, and
 * `apple`. All have the product's time.
 */
export async function startExternalApp(env: Record<string, string> = {}) {
  let app: TestApp | undefined;
  const now = () => app?.clock.now() ?? new Date();
  const appleKey = await generateKeyPair("ES256", { extractable: true });
  const isSecret = (secret: string) =>
    jwtVerify(secret, appleKey.publicKey, {
      issuer: "APPLETEAM",
      subject: CLIENT.id,
      audience: apple.issuer,
      currentDate: now(),
    }).then(
      ({ protectedHeader }) => protectedHeader.kid === "APPLEKEY",
      () => false,
    );
  const apple: Provider = await forSuite(startSignInProvider({ now, isSecret }));
  const [main, other, own] = await Promise.all([
    forSuite(startSignInProvider({ now })),
    forSuite(startSignInProvider({ now, announcesIss: false })),
    forSuite(startSignInProvider({ now })),
  ]);
  const file = join(temporaryFolder(), "providers.json");
  const acme = { id: "acme", name: "Acme", kind: "oidc", issuer: own.issuer, emails: "trusted" };
  const client = { clientId: CLIENT.id, secretVariable: "ACME_SECRET" };
  const staff = { id: "staff", name: "Staff", signUp: false };
  const school = { id: "school", name: "School", domains: ["school.example"] };
  const providers = [acme, { ...acme, ...staff }, { ...acme, ...school }].map((each) => ({
    ...each,
    ...client,
  }));
  writeFileSync(file, JSON.stringify({ providers }));
  app = await startSuiteApp({
    env: {
      ...{ ...keyOf("GOOGLE"), GOOGLE_ISSUER: main.issuer },
      ...{ ...keyOf("GITHUB"), GITHUB_BASE_URL: main.issuer, GITHUB_API_URL: main.issuer },
      ...{ ...keyOf("MICROSOFT"), MICROSOFT_ISSUER: other.issuer },
      ...{ APPLE_CLIENT_ID: CLIENT.id, APPLE_TEAM_ID: "APPLETEAM", APPLE_KEY_ID: "APPLEKEY" },
      ...{ APPLE_ISSUER: apple.issuer, APPLE_PRIVATE_KEY: await exportPKCS8(appleKey.privateKey) },
      ...{ SIGN_IN_PROVIDERS: file, ACME_SECRET: CLIENT.secret },
      ...{ EXTERNAL_RETURN_URLS: RETURN_URLS.join(","), EMAIL_SIGN_IN: "off" },
      ...env,
    },
  });
  return { app, main, other, own, ...externalActions(app, { main, other, own, apple }) };
}

type Provider = Awaited<ReturnType<typeof startSignInProvider>>;

function externalActions(app: TestApp, at: Record<"main" | "other" | "own" | "apple", Provider>) {
  const simulatorOf = (provider: string) =>
    ({ microsoft: at.other, apple: at.apple, acme: at.own, staff: at.own, school: at.own })[
      provider
    ] ?? at.main;

  /** Begins an exchange in a browser. */
  const start = (browser: HttpClient, { provider = "google", ...options }: Options = {}) =>
    browser.post("/auth/start-external", { provider, acceptTerms: true, ...options });

  /** Begins an exchange and signs an account in at its provider. */
  async function answerOf(
    browser: HttpClient,
    account: SimulatedAccount,
    options: Options = {},
  ): Promise<Answer> {
    const { provider = "google" } = options;
    const { status, body } = await start(browser, options);
    if (status !== 200) throw new Error(`start answered ${status} ${JSON.stringify(body)}`);
    const answer = simulatorOf(provider).authorize(body.authorizationUrl, account);
    return { provider, ...answer } as Answer;
  }

  const finish = (browser: HttpClient, answer: Answer) =>
    browser.send("POST", "/auth/finish-external", answer);

  /** Signs in by a provider. */
  const signInBy = async (
    account: SimulatedAccount,
    options: Options & { browser?: HttpClient } = {},
  ) => {
    const { browser = app.httpClient(), ...others } = options;
    return finish(browser, await answerOf(browser, account, others));
  };

  return {
    start,
    answerOf,
    finish,
    signInBy,
    /** Proves an identity. Returns its token. */
    async prove(browser: HttpClient, account: SimulatedAccount, provider = "google") {
      const options = { browser, provider, purpose: "prove" };
      const { status, body } = await signInBy(account, options);
      if (status !== 200 || !body.identityToken)
        throw new Error(`finish answered ${status} ${JSON.stringify(body)}`);
      return body.identityToken as string;
    },
    /** Issuers and subjects of the identities of a user. */
    identitiesOf: (userId: string) =>
      app.sql<{ provider: string; subject: string; email: string | null }>(
        "select provider, subject, email from identities where user_id = ? order by id",
        [userId],
      ),
    userIdOf: async (email: string) =>
      (await app.sql<{ id: string }>("select id from users where canonical_email = ?", [email]))[0]
        ?.id,
  };
}

/** An account at Google with a proven address. */
export const googleAccount = (changes: Partial<SimulatedAccount> = {}): SimulatedAccount => ({
  sub: randomUUID(),
  email: `${randomUUID()}@gmail.com`,
  email_verified: true,
  name: "Ann Example",
  ...changes,
});

/** An account at GitHub. */
export function githubAccount(email: string, verified: boolean): SimulatedAccount {
  const emails = [
    { email: `other-${email}`, primary: false, verified: true },
    { email, primary: true, verified },
  ];
  return { sub: String(randomInt(1, 2 ** 31)), name: "Ann Example", emails };
}
