import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { test } from "vitest";
import {
  CHROMIUM,
  describeWeb,
  enter,
  say,
  see,
  seeHeading,
  signOut,
} from "../../support/browser.ts";
import { startDaemon } from "../../support/processes/programs.ts";
import { forTest } from "../../support/suites.ts";
import { temporaryFolder } from "../../support/temporary-folder.ts";

/** Another origin of the same site, as app.example.com is to api.example.com. */
const PORT = 65_001;
const ORIGIN = `http://127.0.0.1:${PORT}`;
const VITE = "node_modules/.bin/vite";

/** Builds the app for an API elsewhere, and serves it. */
async function serveBuild(apiUrl: string) {
  const options = ["--config", "web/vite.config.ts", "--outDir", temporaryFolder()];
  await promisify(execFile)(VITE, ["build", ...options], {
    env: { ...process.env, VITE_API_URL: apiUrl },
  });
  const address = ["--host", "127.0.0.1", "--port", `${PORT}`, "--strictPort"];
  return startDaemon(
    VITE,
    ["preview", ...options, ...address],
    async () => (await fetch(ORIGIN)).ok,
  );
}

describeWeb(
  "Web app: on another origin",
  { browsers: CHROMIUM, env: { CORS_ORIGINS: ORIGIN } },
  (web) => {
    test("the app is built for an API elsewhere, streams from it and keeps its session", async () => {
      await forTest(serveBuild(web.app.url));
      const context = await web.newBrowser({ extraHTTPHeaders: {} }); // others need a preflight
      const user = await web.app.addUser();
      const { page } = await web.open(`${ORIGIN}/sign-in`, context);
      await enter(page, user);
      await say(page, "Hello");
      await see(page, "couldn't agree more");
      await page.reload();
      await see(page, "couldn't agree more");
      await signOut(page);
      await seeHeading(page, "Sign in");
      await context.close();
    });
  },
);
