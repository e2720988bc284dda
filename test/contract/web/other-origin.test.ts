import { execFile } from "node:child_process";
import { once } from "node:events";
import { createReadStream, mkdtempSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { extname, join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { describeWeb, fillIn } from "../../support/web-fixture.ts";

/** Another origin of the same site, as app.example.com is to api.example.com. */
const PORT = 65_001;
const ORIGIN = `http://127.0.0.1:${PORT}`;
const TYPES: Record<string, string> = { ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml" };

describeWeb(
  "Web app: on another origin",
  (web) => {
    test("is built for an API elsewhere, streams from it and keeps its session", async () => {
      const folder = mkdtempSync(join(tmpdir(), "web-"));
      const vite = ["node_modules/.bin/vite", "build", "--config", "web/vite.config.ts", "--outDir", folder];
      await promisify(execFile)("node", vite, { env: { ...process.env, VITE_API_URL: web.app.url } });
      const server = createServer(({ url = "/" }, response) => {
        response.setHeader("content-type", TYPES[extname(url)] ?? "text/html");
        createReadStream(join(folder, url === "/" ? "index.html" : url)).pipe(response);
      });
      await once(server.listen(PORT, "127.0.0.1"), "listening");
      const context = await web.newBrowser({ extraHTTPHeaders: {} }); // others need a preflight
      const user = await web.app.addUser();
      const { page, problems } = await web.open(`${ORIGIN}/#/sign-in`, context);
      await fillIn(page, { "E-mail address": user.email, Password: user.password });
      await page.getByRole("button", { name: "Sign in" }).click();
      await fillIn(page, { Message: "Hello" });
      await page.keyboard.press("Enter");
      await page.getByText("couldn't agree more").waitFor();
      await page.reload();
      await page.getByText("couldn't agree more").waitFor();
      await page.getByRole("button", { name: "Sign out" }).click();
      await page.getByRole("heading", { name: "Sign in" }).waitFor();
      expect(problems).toEqual([]);
      await context.close();
      server.close();
    });
  },
  ["Chromium"],
  { CORS_ORIGINS: ORIGIN },
);
