import { test } from "vitest";
import {
  CHROMIUM,
  chooseLanguage,
  describeWeb,
  expectAccessible,
  goTo,
  press,
  see,
  submit,
} from "../../support/browser.ts";

describeWeb("Web app: budgets", { browsers: CHROMIUM }, (web) => {
  test("an administrator sets, changes and deletes a budget", async () => {
    const tab = await web.signInAdmin();
    const { page } = tab;
    await goTo(page, "/admin/budgets");
    await press(page, "New budget");
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Whose calls").selectOption("admin-role");
    await submit(dialog, { Limit: "twenty" }, "Set the budget");
    await see(dialog, "Enter a number such as 20 or 0.50.");
    await submit(dialog, { Limit: "20" }, "Set the budget");
    await see(page, "The budget has been set.");
    const row = page.getByRole("listitem").filter({ hasText: "Each administrator" });
    await see(row, "$20.00 a month");
    await expectAccessible(tab);
    await press(row, "Change");
    await submit(dialog, { Limit: "30" }, "Save");
    await see(row, "$30.00 a month");
    await press(row, "Change");
    await press(dialog, "Delete the budget");
    await see(page, "Nothing to show.");
  });

  test("in German, limits are typed and shown with a comma", async () => {
    const { page } = await web.signIn(await web.app.addUser({ role: "admin" })); // the account keeps the language
    await chooseLanguage(page, "Deutsch");
    await goTo(page, "/admin/budgets");
    const dialog = page.getByRole("dialog");
    for (const [unit, typed, limit] of [
      ["cost", "1.250,50", "1.250,50\u00a0$"],
      ["tokens", "10.000", "10.000 Tokens"],
    ] as const) {
      await press(page, "Neues Budget");
      await dialog.getByLabel("Wessen Aufrufe").selectOption("admin-role");
      await dialog.getByLabel("Was begrenzt wird").selectOption(unit);
      await submit(dialog, { Limit: typed }, "Budget festlegen");
      const row = page.getByRole("listitem").filter({ hasText: limit });
      await see(row, `${limit} im Monat`);
      await press(row, "Ändern");
      await submit(dialog, { Limit: "0,5" }, "Speichern");
      if (unit === "cost") await see(page, "0,50\u00a0$ im Monat");
      else await see(dialog, "ganze Zahl");
    }
  });

  test("an administrator finds the person of a new budget in its dialog", async () => {
    await web.app.addUser({ name: "Petra Budget" });
    const { page } = await web.signInAdmin();
    await goTo(page, "/admin/budgets");
    await press(page, "New budget");
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Whose calls").selectOption("user");
    const person = dialog.getByRole("combobox", { name: "User", exact: true });
    await person.fill("Petra");
    await page.getByRole("option", { name: "Petra Budget" }).click();
    await press(dialog, "Remove the filter"); // another person can be found instead
    await person.fill("Petra");
    await page.getByRole("option", { name: "Petra Budget" }).click();
    await submit(dialog, { Limit: "5" }, "Set the budget");
    const row = page.getByRole("listitem").filter({ hasText: "Petra Budget" });
    await see(row, "of $5.00 this month");
  });

  test("a user sees a progress bar for each budget", async () => {
    const user = await web.app.addUser();
    const tab = await web.signIn(user);
    const { page } = tab;
    const admin = await web.app.signInAdmin();
    const budget = { scope: "user", subject: user.id, unit: "tokens", period: "day", limit: 1_000 };
    const set = await admin.put("/admin/budgets", budget);
    await admin.post(`/admin/budgets/${set.body.budget.id}/adjust`, {
      used: 250,
      reason: "a test",
    });
    await goTo(page, "/account/usage");
    await see(page, "250 of 1,000 tokens today");
    await page.getByRole("progressbar", { name: "Used: Your budget" }).waitFor();
    await expectAccessible(tab);
  });
});
