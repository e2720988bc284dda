import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import {
  CHROMIUM,
  chooseLanguage,
  describeWeb,
  expectAccessible,
  goTo,
  type Tab,
} from "../../support/browser.ts";

/** Every page of the app. */
const PATHS = [
  ...[...readFileSync("web/src/lib/pages.ts", "utf8").matchAll(/"(\/[\w/-]*)": page/g)].map(
    ([, path = ""]) => path,
  ),
  "/",
];
const USER_TABS = [
  "",
  "?tab=sessions",
  "?tab=identities",
  "?tab=usage",
  "?tab=audit",
  "?tab=emails",
];
const SCHEMES = ["light", "dark"] as const;
const LANGUAGES = ["English", "Deutsch"] as const;
const WIDTHS = [1280, 768, 320];
type Window = {
  language: (typeof LANGUAGES)[number];
  width: number;
  colorScheme: (typeof SCHEMES)[number];
};
/**
 * The windows in which each page is looked at: with TEST_FULL all, else those most unlike each
 * other.
 */
const WINDOWS: Window[] = process.env.TEST_FULL
  ? LANGUAGES.flatMap((language) =>
      WIDTHS.flatMap((width) => SCHEMES.map((colorScheme) => ({ language, width, colorScheme }))),
    )
  : [
      { language: "English", width: 1280, colorScheme: "light" },
      { language: "Deutsch", width: 320, colorScheme: "dark" },
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

  /** Looks at a page in each window of a language. */
  const look = async (tab: Tab, language: string) => {
    for (const { width, colorScheme } of WINDOWS.filter((each) => each.language === language)) {
      await tab.page.setViewportSize({ width, height: 720 });
      await tab.page.emulateMedia({ colorScheme, reducedMotion: "reduce" }); // no colour is on its way
      await expectAccessible(tab);
    }
    await tab.page.setViewportSize({ width: 1280, height: 720 });
  };

  test("each page has a title and is accessible, in each language, light and dark, wide and narrow", async () => {
    await web.app.addVerifiedUser({ name: "Ann Example", email: "ann@example.com" });
    const signedOut = await web.open("/sign-in");
    await signedOut.page.getByRole("button", { name: "Sign in" }).waitFor();
    const ofSignIn = await signedOut.page.evaluate(LOADED_BYTES);
    expect(ofSignIn, "the sign-in").toBeLessThan(90 * KIB);
    await look(signedOut, "English");
    await signedOut.page.getByRole("button", { name: "Deutsch" }).click();
    await look(signedOut, "Deutsch");
    const [english, german] = [await web.signInAdmin(), await web.signInAdmin()];
    const loaded = await english.page.evaluate(LOADED_BYTES);
    await chooseLanguage(german.page, "Deutsch");
    expect(loaded).toBeGreaterThan(50 * KIB);
    expect(loaded, "the sign-in and the chat").toBeLessThan((90 + 140) * KIB);
    expect(PATHS.length).toBeGreaterThan(14);
    const titles = new Set<string>();
    for (const path of PATHS) {
      for (const tab of [english, german]) {
        await visit(tab, path);
        await look(tab, tab === english ? "English" : "Deutsch");
      }
      titles.add(await english.page.title());
    }
    expect(titles.size).toBe(PATHS.length);
  });

  test.for(LANGUAGES)(
    "each tab of a user is accessible, light and dark, wide and narrow: %s",
    async (language) => {
      const user = await web.app.addVerifiedUser({ name: "Ben Example" });
      await web.app.signIn(user);
      const tab = await web.signInAdmin();
      await chooseLanguage(tab.page, language);
      await visit(tab, `/admin/users/${user.id}`);
      for (const query of USER_TABS) {
        await goTo(tab.page, `/admin/users/${user.id}${query}`);
        await expect.poll(() => tab.page.locator("[aria-busy=true]").count()).toBe(0);
        await look(tab, language);
      }
    },
  );
});
