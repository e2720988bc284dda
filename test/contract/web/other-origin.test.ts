import { execFile } from "node:child_process";
import { once } from "node:events";
import { createReadStream, mkdtempSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { extname, join } from "node:path";
import { promisify } from "node:util";
import { test } from "vitest";
import { press, say, see, seeHeading, submit } from "../../support/web-actions.ts";
import { describeWeb, type WebFixture } from "../../support/web-fixture.ts";

/** Another origin of the same site, as app.example.com is to api.example.com. */
const PORT = 65_001;
const ORIGIN = `http://127.0.0.1:${PORT}`;
const TYPES: Record<string, string> = { ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml" };

/** Builds the app for an API elsewhere, and serves it. */
async function serveBuild(apiUrl: string) {
  const folder = mkdtempSync(join(tmpdir(), "web-"));
  const vite = ["node_modules/.bin/vite", "build", "--config", "web/vite.config.ts", "--outDir", folder];
  await promisify(execFile)("node", vite, { env: { ...process.env, VITE_API_URL: apiUrl } });
  const server = createServer(({ url = "/" }, response) => {
    response.setHeader("content-type", TYPES[extname(url)] ?? "text/html");
    createReadStream(join(folder, url === "/" ? "index.html" : url)).pipe(response);
  });
  await once(server.listen(PORT, "127.0.0.1"), "listening");
  return server;
}

const tests = (web: WebFixture) =>
  test("is built for an API elsewhere, streams from it and keeps its session", async () => {
    const server = await serveBuild(web.app.url);
    const context = await web.newBrowser({ extraHTTPHeaders: {} }); // others need a preflight
    const user = await web.app.addUser();
    const { page } = await web.open(`${ORIGIN}/#/sign-in`, context);
    await submit(page, { "E-mail address": user.email, Password: user.password }, "Sign in");
    await say(page, "Hello");
    await see(page, "couldn't agree more");
    await page.reload();
    await see(page, "couldn't agree more");
    await press(page, "Sign out");
    await seeHeading(page, "Sign in");
    await context.close();
    server.close();
  });

describeWeb("Web app: on another origin", tests, ["Chromium"], { CORS_ORIGINS: ORIGIN });
