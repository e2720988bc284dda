import { randomUUID } from "node:crypto";
import http from "node:http";
import type { AddressInfo } from "node:net";
import { Provider } from "oidc-provider";
import { expect, test } from "vitest";
import { startSuiteApp } from "../../support/app.ts";
import { sendHttp, withToken } from "../../support/http/client.ts";
import { forSuite } from "../../support/suites.ts";

const CLIENT = { id: "gatehouse", secret: "gatehouse-secret-of-a-client" };
/** The address of the account that signs in by its name. */
const emailOf = (login: string) => `${login}@idp.example.com`;

/** A certified OpenID provider with its own pages for sign-in and consent. */
async function startIdentityProvider() {
  const server = http.createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const provider = new Provider(issuer, {
    clients: [
      {
        client_id: CLIENT.id,
        client_secret: CLIENT.secret,
        redirect_uris: ["http://gatehouse.test/auth/external/google/callback"],
      },
    ],
    claims: { openid: ["sub"], email: ["email", "email_verified", "hd"], profile: ["name"] },
    conformIdTokenClaims: false,
    cookies: { keys: [randomUUID()] },
    findAccount: (_context, accountId) => ({
      accountId,
      claims: () => ({
        sub: accountId,
        email: emailOf(accountId),
        email_verified: true,
        hd: "idp.example.com",
        name: "Ann Example",
      }),
    }),
  });
  server.on("request", provider.callback());
  const close = () => {
    server.closeAllConnections();
    server.close();
  };
  return { issuer, close };
}

const idp = await forSuite(startIdentityProvider());
const app = await startSuiteApp({
  env: {
    GOOGLE_CLIENT_ID: CLIENT.id,
    GOOGLE_CLIENT_SECRET: CLIENT.secret,
    GOOGLE_ISSUER: idp.issuer,
  },
});

/**
 * Signs in and consents at the provider's pages, as a browser with its cookies. Returns the
 * callback.
 */
async function visit(authorizationUrl: string, login: string): Promise<string> {
  const cookies = new Map<string, string>();
  const send = async (url: string, form?: Record<string, string>) => {
    const response = await fetch(url, {
      method: form ? "POST" : "GET",
      redirect: "manual",
      headers: { cookie: [...cookies].map((pair) => pair.join("=")).join("; ") },
      ...(form && { body: new URLSearchParams(form) }),
    });
    for (const line of response.headers.getSetCookie()) {
      const [, name = "", value = ""] = /^([^=]+)=([^;]*)/.exec(line) ?? [];
      cookies.set(name, value);
    }
    return response;
  };
  let url = authorizationUrl;
  for (let step = 0; step < 12; step++) {
    if (url.startsWith("http://gatehouse.test/")) return url;
    let response = await send(url);
    if (response.status === 200) {
      const page = await response.text();
      const prompt = /name="prompt" value="(\w+)"/.exec(page)?.[1] ?? "";
      response = await send(url, { prompt, login, password: "any" });
    }
    url = new URL(response.headers.get("location") ?? "/", url).href;
  }
  throw new Error(`the provider went on to ${url}`);
}

async function signIn(login: string, purpose = "sign-in") {
  const browser = app.httpClient();
  const begun = await browser.post("/auth/start-external", {
    provider: "google",
    purpose,
    acceptTerms: true,
  });
  const callback = new URL(await visit(begun.body.authorizationUrl, login));
  const forwarded = await sendHttp(app.url, "GET", callback.pathname + callback.search);
  const { hash } = new URL(forwarded.headers.get("location") ?? "");
  const answer = Object.fromEntries(new URLSearchParams(hash.slice(1)));
  return { browser, ...(await browser.post("/auth/finish-external", answer)) };
}

test("Sign-in with a certified OpenID provider: creates an account, returns to it, and proves it again", async () => {
  const login = `ann-${randomUUID()}`;
  const first = await signIn(login);
  expect([first.status, first.body.user?.email]).toEqual([200, emailOf(login)]);
  const { get } = withToken(first.browser, first.body.accessToken);
  expect((await get("/user/profile")).body).toMatchObject({
    name: "Ann Example",
    emailVerified: true,
  });
  const again = await signIn(login);
  expect(again.body.user.id).toBe(first.body.user.id);
  const proof = await signIn(login, "prove");
  const own = withToken(proof.browser, again.body.accessToken);
  const { identityToken } = proof.body;
  expect((await own.post("/auth/confirm", { identityToken })).status).toBe(200);
});
