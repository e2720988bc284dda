/**
 * Takes the pictures of the documentation from a running demo (`npm run demo`), with Chromium:
 * `node scripts/tools/screenshots.ts http://127.0.0.1:3000`.
 */
import { type BrowserContextOptions, chromium, type Page } from "playwright-core";

const [, , origin = "http://127.0.0.1:3000"] = process.argv;
const EXECUTABLE = "/usr/bin/chromium-headless-shell";
const FOLDER = "docs/screenshots";
const PASSWORD = "Correct-horse-1";
const [ADMIN, USER] = ["admin@example.com", "user@example.com"];
const WIDE = { width: 1200, height: 750 };
const PHONE = { width: 390, height: 760 };
const QUESTION =
  "Write a function that searches a sorted list, and explain when it is worth using.";
/** Earlier questions in the chat, oldest first. */
const EARLIER = [
  "Names for a coffee brand",
  "What is compound interest? Show the formula.",
  "Rewrite the onboarding e-mail",
  "How do I plan the launch of a small product?",
  "Compare a managed database with one that we run ourselves.",
];

const browser = await chromium.launch({ executablePath: EXECUTABLE, args: ["--no-sandbox"] });

async function openPage(settings: BrowserContextOptions = {}): Promise<Page> {
  const context = await browser.newContext({ locale: "en-GB", viewport: WIDE, ...settings });
  return context.newPage();
}

async function signIn(email: string, settings: BrowserContextOptions = {}): Promise<Page> {
  const page = await openPage(settings);
  await page.goto(`${origin}/sign-in`);
  await page.getByLabel("E\u2011mail address").fill(email);
  await page.getByLabel("Password", { exact: true }).fill(PASSWORD);
  await page.keyboard.press("Enter");
  await page.getByLabel("Message", { exact: true }).waitFor();
  return page;
}

/** Opens a page of the app and waits until it has loaded. */
async function goTo(page: Page, path: string): Promise<void> {
  await page.evaluate(
    `history.pushState(null, "", ${JSON.stringify(path)}); dispatchEvent(new PopStateEvent("popstate"))`,
  );
  await page.locator("main .card:visible").first().waitFor();
  await page.waitForTimeout(800); // charts are drawn
}

async function ask(page: Page, question: string): Promise<void> {
  await goTo(page, "/");
  await page.getByLabel("Message", { exact: true }).fill(question);
  await page.keyboard.press("Enter");
  await page.getByRole("button", { name: "Continue" }).waitFor({ timeout: 60_000 }); // the reply is complete
  await page.waitForTimeout(800); // and its conversation has a title
}

async function picture(page: Page, name: string): Promise<void> {
  await page.mouse.move(0, 0);
  await page.waitForTimeout(300); // colours change slowly
  await page.screenshot({ path: `${FOLDER}/${name}.png` });
}

const signedOut = await openPage();
await signedOut.goto(`${origin}/sign-in`);
await signedOut.getByLabel("E\u2011mail address").waitFor();
await picture(signedOut, "sign-in");

const user = await signIn(USER);
for (const question of EARLIER) await ask(user, question);
await ask(user, QUESTION);
await user.evaluate("document.querySelector('.log').scrollTop = 0");
await picture(user, "chat");
await user.emulateMedia({ colorScheme: "dark" });
await picture(user, "chat-dark");
await user.emulateMedia({ colorScheme: "light" });
await user.setViewportSize(PHONE);
await user.evaluate("document.querySelector('.log').scrollTop = 0");
await picture(user, "chat-phone");
await user.setViewportSize(WIDE);
await goTo(user, "/account/security");
await picture(user, "account-security");

const admin = await signIn(ADMIN);
for (const [path, name] of [
  ["/admin", "overview"],
  ["/admin/users", "admin-users"],
  ["/admin/audit-log", "admin-audit-log"],
  ["/admin/usage", "admin-usage"],
] as const) {
  await goTo(admin, path);
  await picture(admin, name);
}
await goTo(admin, "/admin/users?search=okafor");
await admin.getByRole("link", { name: "Paul Okafor" }).click();
await admin.getByRole("tablist").waitFor();
await picture(admin, "user");
await goTo(admin, "/admin/emails?template=password-changed");
await admin.getByRole("button", { name: "Preview of this e\u2011mail" }).first().click();
await admin.getByText("This is how the recipient sees it").waitFor();
await admin.waitForTimeout(500);
await picture(admin, "email-preview");
await admin.keyboard.press("Escape");
await admin.emulateMedia({ colorScheme: "dark" });
await goTo(admin, "/admin/users");
await picture(admin, "admin-users-dark");
await browser.close();
