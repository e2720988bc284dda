import { expect, test } from "vitest";
import { describeWeb, expectAccessible, fillIn, goTo } from "../../support/web-fixture.ts";

describeWeb("Web app: accounts", (web) => {
  test("register, verify by mail, sign in, edit the profile, sign out", async () => {
    const context = await web.newBrowser();
    const tab = await web.open("/register", context);
    const { page } = tab;
    await expectAccessible(tab);
    await page.getByRole("button", { name: "Create an account" }).click();
    await page.getByText("must be a valid e-mail address").waitFor();
    await page.getByText("must be accepted").waitFor();
    const email = "ann.web@example.com";
    await fillIn(page, { Name: "Ann", "E-mail address": email, Password: "Correct-horse-1" });
    await page.getByLabel("I accept the terms of use.").check();
    await page.getByRole("button", { name: "Create an account" }).click();
    await page.getByText("Your account is ready.").waitFor();

    const { link = "" } = await web.app.mail.emailTo(email);
    const mailed = await web.open(link, context);
    await mailed.page.getByRole("button", { name: "Confirm" }).click();
    await mailed.page.getByText("Your address is confirmed.").waitFor();
    expect(mailed.page.url()).toBe(`${web.app.url}/#/verify-email`);
    await mailed.page.reload();
    await fillIn(mailed.page, { Token: link.split("#token=")[1] ?? "" });
    await mailed.page.getByRole("button", { name: "Confirm" }).click();
    await mailed.page.getByText("invalid, expired or already used").waitFor();

    await page.getByRole("button", { name: "Sign in" }).click();
    await fillIn(page, { "E-mail address": email, Password: "wrong" });
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByRole("alert").filter({ hasText: "The e-mail address or the password is wrong." }).waitFor();
    await fillIn(page, { Password: "Correct-horse-1" });
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByRole("link", { name: "Profile" }).click();
    await page.getByText("confirmed", { exact: true }).waitFor();
    await fillIn(page, { Name: "Ann Example" });
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByText("Saved.").waitFor();
    await page.reload();
    await page.getByText("Ann Example").first().waitFor();
    await expectAccessible(tab);
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.getByRole("heading", { name: "Sign in" }).waitFor();
    expect([...tab.problems, ...mailed.problems]).toEqual([]);
  });

  test("forgot password: the mailed link sets a new one", async () => {
    const user = await web.app.addUser();
    const tab = await web.open("/forgot-password");
    await fillIn(tab.page, { "E-mail address": user.email });
    await tab.page.getByRole("button", { name: "Send the link" }).click();
    await tab.page.getByText("an e-mail is on its way").waitFor();
    const { link = "" } = await web.app.mail.emailTo(user.email, /Reset/);
    const { page, problems } = await web.open(link);
    await fillIn(page, { "New password": "lowercase" });
    await page.getByRole("button", { name: "Set the password" }).click();
    await page.getByText("must contain an uppercase letter, must contain a digit").waitFor();
    await fillIn(page, { "New password": "Brand-new-2" });
    await page.getByRole("button", { name: "Set the password" }).click();
    await page.getByText("Your password is changed.").waitFor();
    expect(
      (await web.app.httpClient().post("/auth/login", { ...user.credentials, password: "Brand-new-2" })).status,
    ).toBe(200);
    await goTo(page, "/reset-password");
    await page.reload();
    await fillIn(page, { Token: ` ${link.split("#token=")[1]}`, "New password": "Brand-new-3" });
    await page.getByRole("button", { name: "Set the password" }).click();
    await page.getByText("invalid, expired or already used").waitFor();
    await page.getByRole("link", { name: "Get another link" }).click();
    await page.getByRole("heading", { name: "Reset your password" }).waitFor();
    expect(problems).toEqual([]);
  });

  test("keeps the page: back button, unknown page, and violations in German", async () => {
    const tab = await web.signIn(await web.app.addUser());
    const { page } = tab;
    await page.getByRole("link", { name: "Profile" }).click();
    await page.getByRole("link", { name: "Sessions" }).click();
    await page.getByRole("heading", { name: "Sessions" }).waitFor();
    await page.goBack();
    await page.getByRole("heading", { name: "Profile" }).waitFor();
    await goTo(page, "/nowhere");
    await page.getByText("There is no such page.").waitFor();
    await page.getByRole("button", { name: "Deutsch" }).click();
    await page.getByText("Diese Seite gibt es nicht.").waitFor();
    expect(await page.getAttribute("html", "lang")).toBe("de");
    await goTo(page, "/profile");
    await fillIn(page, { "Über Sie": "x".repeat(1001) });
    await page.getByRole("button", { name: "Speichern" }).click();
    await page.getByText("darf höchstens 1000 Zeichen haben").waitFor();
    expect(tab.problems).toEqual([]);
  });
});
