import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { CLIENT, startSignInProvider } from "../../../scripts/simulators/sign-in-provider.ts";
import {
  CHROMIUM,
  describeWeb,
  enter,
  press,
  say,
  see,
  seeHeading,
  signOut,
} from "../../support/browser.ts";
import { googleAccount } from "../../support/external.ts";
import { freePort } from "../../support/network/sockets.ts";
import { startDaemon } from "../../support/processes/programs.ts";
import { forSuite, forTest } from "../../support/suites.ts";
import { temporaryFolder } from "../../support/temporary-folder.ts";

/** Another origin of the same site, as app.example.com is to api.example.com. */
const PORT = 65_001;
const ORIGIN = `http://localhost:${PORT}`;
const url = `http://localhost:${await freePort()}`;
const provider = await forSuite(startSignInProvider()); // at another site, 127.0.0.1
const env = {
  ...{ PORT: new URL(url).port, PUBLIC_URL: url, APP_URL: ORIGIN, CORS_ORIGINS: ORIGIN },
  ...{ GOOGLE_CLIENT_ID: CLIENT.id, GOOGLE_CLIENT_SECRET: CLIENT.secret },
  GOOGLE_ISSUER: provider.issuer,
};
const VITE = "node_modules/.bin/vite";

/** Builds the app for an API elsewhere, and serves it. */
async function serveBuild(apiUrl: string) {
  const options = ["--config", "web/vite.config.ts", "--outDir", temporaryFolder()];
  await promisify(execFile)(VITE, ["build", ...options], {
    env: { ...process.env, VITE_API_URL: apiUrl },
  });
  const address = ["--host", "localhost", "--port", `${PORT}`, "--strictPort"];
  return startDaemon(
    VITE,
    ["preview", ...options, ...address],
    async () => (await fetch(ORIGIN)).ok,
  );
}

describeWeb("Web app: on another origin", { browsers: CHROMIUM, env }, (web) => {
  /** Opens the sign-in of the app, in a browser whose requests need no preflight for a header. */
  const openSignIn = async () =>
    web.open(`${ORIGIN}/sign-in`, await web.newBrowser({ extraHTTPHeaders: {} }));

  test("the app is built for an API elsewhere, streams from it and keeps its session", async () => {
    await forTest(serveBuild(url));
    const user = await web.app.addUser();
    const { page } = await openSignIn();
    await enter(page, user);
    await say(page, "Hello");
    await see(page, "couldn't agree more");
    await page.reload();
    await see(page, "couldn't agree more");
    await signOut(page);
    await seeHeading(page, "Sign in");
    await page.context().close();
  });

  test("a provider signs in, and leads back to the app", async () => {
    await forTest(serveBuild(url));
    provider.visitedBy(googleAccount());
    const { page } = await openSignIn();
    await press(page, "Continue with Google");
    const menu = page.getByRole("button", { name: /^Account menu/ });
    await menu.waitFor({ state: "attached" });
    expect(page.url()).toBe(`${ORIGIN}/`);
    await page.reload();
    await menu.waitFor({ state: "attached" });
    await page.context().close();
  });
});
