import { readFileSync } from "node:fs";
import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import {
  CHROMIUM,
  describeWeb,
  expectAccessible,
  goTo,
  press,
  see,
  shown,
  submit,
} from "../../support/browser.ts";

const IMPERSONATING = "You can't do this while you are acting as another user.";

/** Own pages, and how often each gives the reason instead of what the API refuses. */
const OWN_PAGES = [
  { path: "/account/profile", heading: "Profile", reasons: 1 },
  { path: "/account/security", heading: "Security", reasons: 3 },
  { path: "/account/sessions", heading: "Sessions", reasons: 1 },
  { path: "/account/api-keys", heading: "API keys", reasons: 1 },
  { path: "/account/data", heading: "Your data", reasons: 2 },
];
/** Pages on which nothing is refused: they can be used. */
const USABLE_PAGES = [
  { path: "/account/usage", heading: "Usage and budgets" },
  { path: "/", heading: "Chat" },
];
/** The pages of a kind that the app has. */
const pagesBelow = (folder: string) =>
  [...readFileSync("web/src/lib/pages.ts", "utf8").matchAll(/"(\/[\w/-]+)": page/g)]
    .map(([, path = ""]) => path)
    .filter((path) => path.startsWith(folder));
const ADMIN_PAGES = pagesBelow("/admin");

describeWeb("Web app: offers", { browsers: CHROMIUM }, (web) => {
  const openPage = async (page: Page, path: string, heading: string) => {
    await goTo(page, path);
    await page.getByRole("heading", { name: heading, level: 1 }).waitFor();
    await expect.poll(() => page.locator("main [aria-busy=true]").count()).toBe(0);
  };
  /** What can be pressed or changed on a page. */
  const controls = (page: Page) =>
    page.locator("main :is(button, input, select, textarea):visible:enabled").count();

  test("during an impersonation, no page offers what the API refuses, and each says why", async () => {
    const user = await web.app.addVerifiedUser();
    await web.app.signIn(user); // a session that could be ended
    const tab = await web.signInAdmin();
    const { page } = tab;
    await openPage(page, `/admin/users/${user.id}`, user.email);
    await press(page, "Sign in as this user");
    await press(page.getByRole("dialog"), "Sign in as this user");
    await see(page, `is acting as ${user.email}`);
    const refused: string[] = [];
    page.on("response", (answer) => answer.status() >= 400 && refused.push(answer.url()));
    for (const { path, heading, reasons } of OWN_PAGES) {
      await openPage(page, path, heading);
      expect(await page.getByText(IMPERSONATING).count(), path).toBe(reasons);
      expect(await controls(page), path).toBe(0);
      await expectAccessible(tab);
    }
    for (const { path, heading } of USABLE_PAGES) await openPage(page, path, heading);
    const visited = [...OWN_PAGES, ...USABLE_PAGES].map(({ path }) => path);
    expect(visited).toEqual(expect.arrayContaining(pagesBelow("/account")));
    expect(await page.getByRole("link", { name: "Audit log" }).count()).toBe(0);
    for (const path of [...ADMIN_PAGES, `/admin/users/${user.id}`]) {
      await goTo(page, path);
      await see(page, "There is no such page.");
    }
    await press(page, "Back to your account");
    await page.getByRole("link", { name: "Audit log" }).waitFor();
    expect(refused).toEqual([]);
    const open =
      "select actor_id is not null as foreign from sessions where user_id = ? and revoked_at is null";
    await expect.poll(() => web.app.sql(open, [user.id])).toEqual([{ foreign: false }]);
  });

  test("a user has neither links nor access to administration pages", async () => {
    const { page } = await web.signInUser();
    expect(await page.getByRole("link", { name: "Audit log" }).count()).toBe(0);
    for (const path of ADMIN_PAGES) {
      await goTo(page, path);
      await see(page, "There is no such page.");
    }
  });

  type OnUser = {
    whom: "a user" | "another administrator" | "themselves";
    disabled: string[];
    buttons: string[];
    /** In the head of the page. */
    actions: string[];
  };
  const ON_USERS: OnUser[] = [
    {
      whom: "a user",
      disabled: [],
      buttons: [
        "Save",
        "Turn off two-factor authentication",
        "Change metadata",
        "Reset access",
        "Suspend",
        "Delete this user",
      ],
      actions: ["Sign in as this user"],
    },
    {
      whom: "another administrator",
      disabled: ["E-mail address", "Address is verified"],
      buttons: ["Save", "Change metadata", "Delete this user"],
      actions: [],
    },
    {
      whom: "themselves",
      disabled: ["E-mail address", "Address is verified", "Role"],
      buttons: ["Save", "Change metadata"],
      actions: [],
    },
  ];
  test.for(ON_USERS)("an administrator is offered for $whom what the API accepts", async (row) => {
    const admin = await web.app.addUser({ role: "admin" });
    const other = await web.app.addUser(row.whom === "a user" ? {} : { role: "admin" });
    const target = row.whom === "themselves" ? admin : other;
    const tab = await web.signIn(admin);
    const { page } = tab;
    await web.app.setUpFactor(target);
    await openPage(page, `/admin/users/${target.id}`, target.email);
    const details = page.getByRole("article").filter({ hasText: "Details" });
    for (const [label, field] of Object.entries({
      Name: details.getByLabel("Name", { exact: true }),
      "E-mail address": details.getByLabel(shown("E-mail address")),
      "Address is verified": details.getByLabel("Address is verified"),
      Role: details.getByRole("combobox"),
    })) {
      expect(await field.isDisabled(), label).toBe(row.disabled.includes(label));
    }
    const buttons = page.getByRole("tabpanel").getByRole("button");
    expect(await buttons.allInnerTexts()).toEqual(row.buttons);
    const actions = page.getByRole("main").locator("header").first().getByRole("button");
    expect(await actions.allInnerTexts()).toEqual(row.actions);
    await expectAccessible(tab);
    await submit(details, { Name: "Another Name" }, "Save");
    await page.getByText("Saved.").waitFor(); // of what is disabled nothing was sent
  });

  test("an administrator can neither act as a suspended user nor promote one", async () => {
    const user = await web.app.addUser();
    const { page } = await web.signInAdmin();
    await web.app.sql("update users set suspended_at = now() where id = ?", [user.id]);
    await openPage(page, `/admin/users/${user.id}`, user.email);
    const panel = page.getByRole("tabpanel");
    expect(await panel.getByRole("button").allInnerTexts()).toEqual([
      "Save",
      "Change metadata",
      "Reset access",
      "Reinstate",
      "Delete this user",
    ]);
    expect(await panel.getByRole("combobox").isDisabled()).toBe(true);
    await see(page, "This user is suspended. Reinstate the user first.");
  });

  test("a change of role asks for the administrator's own password", async () => {
    const user = await web.app.addUser();
    const admin = await web.app.addUser({ role: "admin" });
    const { page } = await web.signIn(admin);
    await openPage(page, `/admin/users/${user.id}`, user.email);
    const details = page.getByRole("article").filter({ hasText: "Details" });
    expect(await details.getByLabel("Your own password").count()).toBe(0);
    await details.getByRole("combobox").selectOption("admin");
    const request = page.waitForRequest((sent) => sent.method() === "PUT");
    await submit(details, { "Your own password, to change the role": admin.password }, "Save");
    await see(page, "Saved.");
    expect((await request).postDataJSON()).toEqual({ role: "admin", password: admin.password });
  });
});
