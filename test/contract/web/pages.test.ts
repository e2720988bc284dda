import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import {
  CHROMIUM,
  chooseLanguage,
  describeWeb,
  expectAccessible,
  goTo,
  screenshot,
  type Tab,
} from "../../support/browser.ts";

/** Every page of the app. */
const PATHS = [
  ...[...readFileSync("web/src/lib/pages.ts", "utf8").matchAll(/"(\/[\w/-]*)": page/g)].map(
    ([, path = ""]) => path,
  ),
  "/",
];
/** Pages that other tests picture with content, and pages with little content. */
const PICTURED = [
  "/",
  "/account/usage",
  "/account/sessions",
  "/admin",
  "/forgot-password",
  "/reset-password",
  "/verify-email",
];
/** The bytes that a browser has received so far, beside the typeface. */
const LOADED_BYTES = `performance.getEntriesByType("resource").concat(performance.getEntriesByType("navigation"))
  .filter(({ name }) => !name.endsWith(".woff2"))
  .reduce((sum, { transferSize }) => sum + transferSize, 0)`;
const KIB = 1024;

describeWeb("Web app: pages", { browsers: CHROMIUM }, (web) => {
  const visit = async (tab: Tab, path: string) => {
    const before = await tab.page.title();
    await goTo(tab.page, path);
    await expect.poll(() => tab.page.title()).not.toBe(before);
    await expect.poll(() => tab.page.locator("[aria-busy=true]").count()).toBe(0);
  };

  test("each page has a title and is accessible: wide, light and English; narrow, dark and German", async () => {
    await web.app.addVerifiedUser({ name: "Ann Example", email: "ann@example.com" });
    const signedOut = await web.open("/sign-in");
    await signedOut.page.getByRole("button", { name: "Sign in" }).waitFor();
    await expectAccessible(signedOut);
    await screenshot(signedOut, "sign-in");
    const ofSignIn = await signedOut.page.evaluate(LOADED_BYTES);
    expect(ofSignIn, "the sign-in").toBeLessThan(90 * KIB);
    const [wide, narrow] = [await web.signInAdmin(), await web.signInAdmin()];
    await chooseLanguage(narrow.page, "Deutsch");
    await narrow.page.setViewportSize({ width: 320, height: 640 });
    await narrow.page.emulateMedia({ colorScheme: "dark" });
    const loaded = await wide.page.evaluate(LOADED_BYTES);
    expect(loaded).toBeGreaterThan(50 * KIB);
    expect(loaded, "the sign-in and the chat").toBeLessThan((90 + 140) * KIB);
    expect(PATHS.length).toBeGreaterThan(14);
    const titles = new Set<string>();
    for (const path of PATHS) {
      for (const tab of [wide, narrow]) {
        await visit(tab, path);
        await expectAccessible(tab);
      }
      titles.add(await wide.page.title());
      if (!PICTURED.includes(path)) await screenshot(wide, path.slice(1).replace("/", "-"));
    }
    expect(titles.size).toBe(PATHS.length);
  });
});
