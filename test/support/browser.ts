// The web app in Chromium and Firefox, and what a person does on its pages.

import { existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import {
  type Browser,
  type BrowserContext,
  chromium,
  firefox,
  type Locator,
  type Page,
} from "playwright-core";
import { afterEach, expect } from "vitest";
import { PASSWORD, type TestUser } from "./accounts.ts";
import { startSuiteApp } from "./app.ts";
import { describeIf, forSuite } from "./suites.ts";

/** A host without https. Browsers trust 127.0.0.1 as if it had https. */
const PLAIN_HTTP = ["--host-resolver-rules=MAP plain-http.test 127.0.0.1"];
/** One site needs no more processes. */
const ONE_PROCESS = {
  "fission.autostart": false,
  "dom.ipc.processCount": 1,
  "dom.ipc.processPrelaunch.enabled": false,
};
/**
 * The browsers of Debian: Chromium without the parts that draw a window, which takes half of its
 * time. The channel drives an unchanged Firefox, by WebDriver BiDi.
 */
const BROWSERS = {
  Chromium: {
    kind: chromium,
    launch: {
      executablePath: "/usr/bin/chromium-headless-shell",
      args: ["--no-sandbox", ...PLAIN_HTTP],
    },
  },
  Firefox: {
    kind: firefox,
    launch: {
      executablePath: "/usr/bin/firefox",
      channel: "moz-firefox",
      firefoxUserPrefs: ONE_PROCESS,
    },
  },
};
type BrowserName = keyof typeof BROWSERS;
export const CHROMIUM: BrowserName[] = ["Chromium"];
const BOTH: BrowserName[] = ["Chromium", "Firefox"];
const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
/** Browsers log the statuses of refused requests as errors. */
const EXPECTED = /Failed to load resource: the server responded with a status of (4\d\d|503)/;

/** Logs violations of the content security policy in the same words in every browser. */
const REPORT_VIOLATIONS = `addEventListener("securitypolicyviolation", ({ violatedDirective, blockedURI }) =>
  console.error("violates the policy:", violatedDirective, blockedURI))`;

/** A page of the app with the errors of its browser. After each test there must be none. */
export type Tab = { page: Page; problems: string[] };

const isAbsent = (browser: BrowserName) =>
  !existsSync(BROWSERS[browser].launch.executablePath) && !process.env.CI;

const shared = globalThis as { gatehouseChromium?: Browser };

/** A browser. The suites of a worker share Chromium, which ends with the worker. */
async function openBrowser(name: BrowserName): Promise<Browser> {
  const { kind, launch } = BROWSERS[name];
  if (name !== "Chromium") return forSuite(kind.launch(launch));
  if (!shared.gatehouseChromium?.isConnected())
    shared.gatehouseChromium = await kind.launch(launch);
  return shared.gatehouseChromium;
}

/** A visited page, the errors of the browser and the URLs of the requests. */
type Visit = { page: Page; errors: string[]; requests: string[] };
type Visitor = (url: string, options?: Parameters<Browser["newContext"]>[0]) => Promise<Visit>;

/**
 * A suite that visits pages in Chromium. It is skipped where Chromium is not installed, except in
 * CI.
 */
export function describeChromium(name: string, tests: (visit: Visitor) => void): void {
  describeIf(!isAbsent("Chromium"), name, async () => {
    const browser = await openBrowser("Chromium");
    const pages: Page[] = [];
    afterEach(async () => void (await Promise.all(pages.splice(0).map((page) => page.close()))));
    tests(async (url, options) => {
      const page = await browser.newPage(options);
      pages.push(page);
      const [errors, requests]: [string[], string[]] = [[], []];
      page.on("console", (message) => message.type() === "error" && errors.push(message.text()));
      page.on("pageerror", ({ message }) => errors.push(message));
      page.on("request", (request) => requests.push(`${request.method()} ${request.url()}`));
      await page.goto(url);
      return { page, errors, requests };
    });
  });
}

type Env = Record<string, string>;
/**
 * The settings of a suite: its browsers, by default Chromium, and with TEST_FULL Firefox, and
 * variables of the product, or a function that chooses those of each browser, such as a port.
 */
type WebSettings = { browsers?: BrowserName[]; env?: Env | (() => Promise<Env>) };

/** A suite that drives the web app. It is skipped if a browser is missing, except in CI. */
export function describeWeb(
  name: string,
  settings: WebSettings,
  tests: (web: WebFixture) => void,
): void {
  const { browsers = process.env.TEST_FULL ? BOTH : CHROMIUM, env = {} } = settings;
  for (const browser of browsers) {
    describeIf(!isAbsent(browser), `${name}, in ${browser}`, async () =>
      tests(await openWeb(browser, typeof env === "function" ? await env() : env)),
    );
  }
}

/** The product and a browser. */
export type WebFixture = Awaited<ReturnType<typeof openWeb>>;

async function openWeb(name: BrowserName, env: Env) {
  const mode = process.env.TEST_SERVERS ? "servers" : "embedded"; // starts in a tenth of the time of an embedded database
  const app = await startSuiteApp({ mode, env });
  const browser = await openBrowser(name);
  const contexts: BrowserContext[] = [];
  const tabs: Tab[] = [];
  afterEach(async () => {
    await Promise.all(contexts.splice(0).map((context) => context.close()));
    expect(tabs.splice(0).flatMap(({ problems }) => problems)).toEqual([]);
  });

  /** A browser with its own storage, cookies and address. */
  async function newBrowser(
    options: Parameters<Browser["newContext"]>[0] = {},
  ): Promise<BrowserContext> {
    const { address } = app.httpClient();
    const context = await browser.newContext({
      extraHTTPHeaders: { "x-forwarded-for": address },
      locale: "en-GB",
      ...options,
    });
    contexts.push(context);
    context.setDefaultTimeout(100_000);
    await context.addInitScript(REPORT_VIOLATIONS);
    return context;
  }
  const urlOf = (path: string) =>
    path.startsWith("http") ? path.replace("http://gatehouse.test", app.url) : `${app.url}${path}`;

  /** Opens a page of the app, or a link of an e-mail. */
  async function open(path: string, context?: BrowserContext): Promise<Tab> {
    const page = await (context ?? (await newBrowser())).newPage();
    const problems: string[] = [];
    page.on("console", (message) => {
      if (message.type() === "error" && !EXPECTED.test(message.text()))
        problems.push(message.text());
    });
    page.on("pageerror", (error) => problems.push(error.message));
    tabs.push({ page, problems });
    await page.goto(urlOf(path));
    return { page, problems };
  }
  /** Opens the app and signs in. */
  async function signIn(
    user: Pick<TestUser, "email" | "password">,
    context?: BrowserContext,
  ): Promise<Tab> {
    const tab = await open("/sign-in", context);
    await enter(tab.page, user);
    await tab.page
      .getByRole("button", { name: /^(Account menu|Kontomenü)/ })
      .waitFor({ state: "attached" });
    return tab;
  }
  /** Opens the app and signs in a new user. */
  const signInUser = async () => signIn(await app.addUser());
  /** Opens the app and signs in the first administrator. */
  const signInAdmin = (context?: BrowserContext) =>
    signIn({ email: "root@example.com", password: PASSWORD }, context);
  return { name, app, newBrowser, open, signIn, signInUser, signInAdmin };
}

/** Gives a page of Chromium an authenticator, which verifies its user and answers at once. */
export async function addAuthenticator(page: Page) {
  const cdp = await page.context().newCDPSession(page);
  await cdp.send("WebAuthn.enable");
  const { authenticatorId } = await cdp.send("WebAuthn.addVirtualAuthenticator", {
    options: {
      ...{ protocol: "ctap2", transport: "internal", hasResidentKey: true },
      ...{ hasUserVerification: true, isUserVerified: true, automaticPresenceSimulation: true },
    },
  });
  return {
    setPresence: (enabled: boolean) =>
      cdp.send("WebAuthn.setAutomaticPresenceSimulation", { authenticatorId, enabled }),
    /** The number of its passkeys. */
    stored: async () =>
      (await cdp.send("WebAuthn.getCredentials", { authenticatorId })).credentials.length,
  };
}

/**
 * Expects no serious or critical violation of the accessibility rules of axe, and no page wider
 * than the window.
 */
export async function expectAccessible({ page }: Tab): Promise<void> {
  await page.evaluate(AXE); // the content security policy refuses scripts of elements only
  const found = await page.evaluate(
    "axe.run().then(({ violations }) => violations.map(({ id, impact, nodes }) => [impact, id, nodes[0].html]))",
  );
  const serious = (found as string[][]).filter(
    ([impact]) => impact === "serious" || impact === "critical",
  );
  expect(serious, page.url()).toEqual([]);
  const width = await page.evaluate("document.documentElement.scrollWidth - innerWidth");
  expect(width, `${page.url()} is too wide`).toBeLessThanOrEqual(0);
}

/**
 * A text as the app shows it: the hyphen of "e-mail" does not break, except in e-mails.
 * @param exact whether it is the whole text
 */
export function shown(text: string | RegExp, exact = false): string | RegExp {
  if (typeof text !== "string" || !/e-mail/i.test(text)) return text;
  const pattern = text
    .replace(/[.*+?^${}()|[\]\\]/g, "\\$&")
    .replace(/(e)-(?=mail)/gi, "$1[-\u2011]");
  return exact ? new RegExp(`^${pattern}$`) : new RegExp(pattern, "i");
}

/** Waits for a text. */
export const see = (on: Page | Locator, text: string | RegExp) =>
  on.getByText(shown(text)).waitFor();

/** Waits for a heading. */
export const seeHeading = (page: Page, name: string) =>
  page.getByRole("heading", { name: shown(name) }).waitFor();

/** Waits for an alert with a text. */
export const seeAlert = (page: Page, hasText: string) =>
  page
    .getByRole("alert")
    .filter({ hasText: shown(hasText) })
    .waitFor();

/**
 * Presses a button.
 * @param then a text that follows
 */
export async function press(
  on: Page | Locator,
  name: string,
  then?: string | RegExp,
): Promise<void> {
  await on.getByRole("button", { name: shown(name) }).click();
  if (then !== undefined) await see(on, then);
}

const isFirefox = (on: Page | Locator) =>
  ("goto" in on ? on : on.page()).context().browser()?.browserType().name() === "firefox";

/** Fills in fields by their labels. */
export async function fillIn(on: Page | Locator, values: Record<string, string>): Promise<void> {
  for (const [label, value] of Object.entries(values)) {
    const field = on.getByLabel(shown(label, true), { exact: true });
    if (isFirefox(on)) for (const key of ["ControlOrMeta+a", "Delete"]) await field.press(key); // `fill` can add to a text
    await field.fill(value);
  }
}

/**
 * Fills in a form and presses its button.
 * @param then a text that follows
 */
export async function submit(
  on: Page | Locator,
  values: Record<string, string>,
  button: string,
  then?: string | RegExp,
): Promise<void> {
  await fillIn(on, values);
  await press(on, button, then);
}

/** Fills in the form of the sign-in, and signs in. */
export const enter = (page: Page, user: { email: string; password: string }) =>
  submit(page, { "E-mail address": user.email, Password: user.password }, "Sign in");

/** Sends a message of the chat. */
export const say = (page: Page, message: string) => submit(page, { Message: message }, "Send");

/** Goes to a page of the app, as a link does. */
export async function goTo(page: Page, path: string): Promise<void> {
  await page.evaluate(
    `history.pushState(null, "", ${JSON.stringify(path)}); dispatchEvent(new PopStateEvent("popstate"))`,
  );
}

/** Goes to a page, and waits for its heading. */
export async function openPage(page: Page, path: string, heading: string): Promise<void> {
  await goTo(page, path);
  await page.getByRole("heading", { name: shown(heading), level: 1 }).waitFor();
}

/** Opens the menu of the account, and chooses an entry. */
async function chooseOfAccount(page: Page, role: "menuitem" | "menuitemradio", name: string) {
  await page.getByRole("button", { name: /^(Account menu|Kontomenü)/ }).click();
  await page.getByRole(role, { name, exact: true }).click();
}

/** Signs out by the menu of the account. */
export const signOut = (page: Page, name = "Sign out") => chooseOfAccount(page, "menuitem", name);

/** Chooses the language of the app. */
export const chooseLanguage = (page: Page, name: "English" | "Deutsch") =>
  chooseOfAccount(page, "menuitemradio", name);

/** Chooses the model of a conversation. */
export async function chooseModel(page: Page, name: string): Promise<void> {
  await page.getByRole("button", { name: /^(Model|Modell): / }).click();
  await page.getByRole("menuitemradio", { name, exact: true }).click();
}

/** Chooses the value of a filter. */
export async function filterBy(page: Page, filter: string, value: string): Promise<void> {
  await page.getByRole("button", { name: filter }).click();
  await page.getByRole("menuitemradio", { name: value, exact: true }).click();
}

/** Deletes the conversation that is shown. */
export async function deleteConversation(page: Page): Promise<void> {
  await page.getByRole("button", { name: "More for this conversation" }).click();
  await page.getByRole("menuitem", { name: "Delete this conversation" }).click();
}

/** Replaces a text in all conversations that the browser has kept. */
export async function changeKept(page: Page, from: string, to: string): Promise<void> {
  await page.evaluate(`(async () => {
    const done = (request) => new Promise((resolve) => { request.onsuccess = () => resolve(request.result); });
    for (const { name } of await indexedDB.databases()) {
      const database = await done(indexedDB.open(name));
      const store = database.transaction("conversations", "readwrite").objectStore("conversations");
      for (const each of await done(store.getAll()))
        await done(store.put(JSON.parse(JSON.stringify(each).replaceAll(${JSON.stringify(from)}, () => ${JSON.stringify(to)}))));
      database.close();
    }
  })()`);
}
