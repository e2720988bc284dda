import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import type { CDPSession, Page } from "playwright-core";
import { expect, test } from "vitest";
import type { SignedIn } from "../../support/accounts.ts";
import { describeWeb } from "../../support/browser.ts";
import { freePort } from "../../support/network/sockets.ts";

const url = `http://localhost:${await freePort()}`;
const env = { PORT: new URL(url).port, PUBLIC_URL: url };

/** A foreign library for pages, which services of other makers expect. */
const LIBRARY = readFileSync(
  join(
    dirname(createRequire(import.meta.url).resolve("@simplewebauthn/browser")),
    "../dist/bundle/index.umd.min.js",
  ),
  "utf8",
);

/** What a page does with a passkey, by the interfaces that browsers have. */
const SCRIPT = `
  const send = async (path, body, token) => {
    const headers = { "content-type": "application/json", ...(token && { authorization: "Bearer " + token }) };
    const response = await fetch(path, { method: body === undefined ? "DELETE" : "POST", headers, body: JSON.stringify(body) });
    return { status: response.status, body: await response.json() };
  };
  const creation = (options) => PublicKeyCredential.parseCreationOptionsFromJSON(options);
  const request = (options) => PublicKeyCredential.parseRequestOptionsFromJSON(options);
  window.passkeys = {
    send,
    async register(token) {
      const { body } = await send("/user/passkeys/options", { purpose: "register" }, token);
      const made = await navigator.credentials.create({ publicKey: creation(body.options) });
      return send("/user/passkeys", { credential: made.toJSON() }, token);
    },
    async signIn(tempToken, mediation = "optional") {
      const { body } = await send("/auth/passkey-options", { tempToken });
      const used = await navigator.credentials.get({ publicKey: request(body.options), mediation });
      return send("/auth/verify-passkey", { credential: used.toJSON(), tempToken });
    },
    async confirm(token) {
      const { body } = await send("/user/passkeys/options", { purpose: "confirm" }, token);
      const used = await navigator.credentials.get({ publicKey: request(body.options) });
      return send("/auth/confirm", { passkey: used.toJSON() }, token);
    },
  }`;

type Result = { status: number; body: Record<string, unknown> & { passkey?: { id: string } } };

const AUTHENTICATOR = {
  protocol: "ctap2",
  transport: "internal",
  hasResidentKey: true,
  hasUserVerification: true,
  isUserVerified: true,
  automaticPresenceSimulation: true,
} as const;

describeWeb("Passkeys", { browsers: ["Chromium"], env }, (web) => {
  /** A page of the service in a browser with an authenticator, and a user who is signed in. */
  async function start() {
    const { page } = await web.open(`${url}/sign-in`);
    const cdp = await page.context().newCDPSession(page);
    await cdp.send("WebAuthn.enable");
    const options = AUTHENTICATOR;
    const { authenticatorId } = await cdp.send("WebAuthn.addVirtualAuthenticator", { options });
    await page.evaluate(SCRIPT);
    const account = await web.app.signIn();
    return { page, cdp, authenticatorId, account };
  }
  const run = (page: Page, call: string) => page.evaluate(`passkeys.${call}`) as Promise<Result>;
  const failure = (page: Page, call: string) =>
    page.evaluate(`passkeys.${call}.then(() => "nothing", ({ name }) => name)`);
  const stored = async (cdp: CDPSession, authenticatorId: string) =>
    (await cdp.send("WebAuthn.getCredentials", { authenticatorId })).credentials;
  const register = (page: Page, { accessToken }: Pick<SignedIn, "accessToken">) =>
    run(page, `register("${accessToken}")`);

  test("Chromium adds a passkey, signs in with it, and confirms the session", async () => {
    const { page, cdp, authenticatorId, account } = await start();
    expect((await register(page, account)).status).toBe(201);
    expect(await stored(cdp, authenticatorId)).toMatchObject([{ isResidentCredential: true }]);
    const signedIn = await run(page, "signIn()");
    expect(signedIn).toMatchObject({ status: 200, body: { user: { id: account.user.id } } });
    expect((await run(page, `confirm("${signedIn.body.accessToken}")`)).status).toBe(200);
  });

  test("Chromium completes a login that asks for a second factor", async () => {
    const { page, account } = await start();
    await register(page, account);
    await web.app.setUpFactor(account.user);
    const tempToken = await web.app.mfaTokenFor(account.user);
    expect((await run(page, `signIn("${tempToken}")`)).status).toBe(200);
  });

  test("Chromium creates no second passkey for the same account", async () => {
    const { page, account } = await start();
    await register(page, account);
    expect(await failure(page, `register("${account.accessToken}")`)).toBe("InvalidStateError");
  });

  test("Chromium uses no passkey if its user is not verified", async () => {
    const { page, cdp, authenticatorId, account } = await start();
    await register(page, account);
    await cdp.send("WebAuthn.setUserVerified", { authenticatorId, isUserVerified: false });
    expect(await failure(page, "signIn()")).toBe("NotAllowedError");
  });

  test("Chromium offers a passkey in the autofill of a sign-in page", async () => {
    const { page, account } = await start();
    await register(page, account);
    await page.evaluate(
      `document.body.append(Object.assign(document.createElement("input"), { autocomplete: "username webauthn" }))`,
    );
    expect((await run(page, 'signIn(undefined, "conditional")')).status).toBe(200);
  });

  test("Chromium forgets a removed passkey", async () => {
    const { page, cdp, authenticatorId, account } = await start();
    const { body } = await register(page, account);
    await page.evaluate(`
      passkeys.send("/user/passkeys/${body.passkey?.id}", undefined, "${account.accessToken}").then(({ body }) =>
        PublicKeyCredential.signalAllAcceptedCredentials({
          rpId: "localhost",
          userId: "${Buffer.from(account.user.id.replaceAll("-", ""), "hex").toString("base64url")}",
          allAcceptedCredentialIds: body.acceptedIds,
        }))`);
    await expect.poll(() => stored(cdp, authenticatorId)).toEqual([]);
  });

  test("@simplewebauthn/browser accepts the options unchanged, and returns what the service accepts", async () => {
    const { page, account } = await start();
    await page.evaluate(LIBRARY);
    const added = await page.evaluate(`(async () => {
      const token = "${account.accessToken}";
      const { body } = await passkeys.send("/user/passkeys/options", { purpose: "register" }, token);
      const credential = await SimpleWebAuthnBrowser.startRegistration({ optionsJSON: body.options });
      return passkeys.send("/user/passkeys", { credential }, token);
    })()`);
    expect(added).toMatchObject({ status: 201 });
    const signedIn = await page.evaluate(`(async () => {
      const { body } = await passkeys.send("/auth/passkey-options", {});
      const credential = await SimpleWebAuthnBrowser.startAuthentication({ optionsJSON: body.options });
      return passkeys.send("/auth/verify-passkey", { credential });
    })()`);
    expect(signedIn).toMatchObject({ status: 200, body: { user: { id: account.user.id } } });
  });

  test("a synced passkey is shown as such", async () => {
    const { page, cdp, authenticatorId, account } = await start();
    await cdp.send("WebAuthn.removeVirtualAuthenticator", { authenticatorId });
    const options = { ...AUTHENTICATOR, defaultBackupEligibility: true, defaultBackupState: true };
    await cdp.send("WebAuthn.addVirtualAuthenticator", { options });
    const { body } = await register(page, account);
    expect(body.passkey).toMatchObject({ synced: true, device: "platform" });
  });
});
