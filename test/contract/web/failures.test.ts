import { expect, test } from "vitest";
import { describeWeb, fillIn, goTo } from "../../support/web-fixture.ts";

describeWeb("Web app: failures", (web) => {
  test("423: shows the reason, counts down, and refuses further attempts until then", async () => {
    const user = await web.app.addUser();
    for (let i = 0; i < 5; i++)
      await web.app.httpClient().post("/auth/login", { email: user.email, password: "Wrong-1-guess" });
    const { page, problems } = await web.open("/sign-in");
    await fillIn(page, { "E-mail address": user.email, Password: user.password });
    const button = page.getByRole("button", { name: "Sign in" });
    await button.click();
    await page.getByRole("alert").filter({ hasText: "Locked after too many failed attempts." }).waitFor();
    const [first] = (await page.getByRole("timer").textContent())?.match(/\d+:\d\d/) ?? [];
    expect(await button.isDisabled()).toBe(true);
    await expect.poll(() => page.getByRole("timer").textContent()).not.toContain(first);
    expect(problems).toEqual([]);
  });

  test("429: counts down, and the form can be sent again after that", async () => {
    const { page } = await web.open("/forgot-password");
    let refusals = 1;
    await page.route("**/auth/forgot-password", (route) => {
      if (refusals-- <= 0) return route.fallback();
      return route.fulfill({
        status: 429,
        headers: { "retry-after": "2" },
        json: { code: "RATE_LIMITED", message: "" },
      });
    });
    await fillIn(page, { "E-mail address": "unknown@example.com" });
    await page.getByRole("button", { name: "Send the link" }).click();
    await page.getByRole("alert").filter({ hasText: "Too many requests." }).getByRole("timer").waitFor();
    await page.getByRole("button", { name: "Send the link" }).click(); // waits until it is enabled
    await page.getByText("an e-mail is on its way").waitFor();
  });

  test("503: is repeated automatically; slow requests show progress; a lost connection is reported", async () => {
    const user = await web.app.addUser();
    const { page } = await web.signIn(user);
    await goTo(page, "/profile");
    let release = () => {};
    const answers = [
      { status: 503, json: { code: "UNAVAILABLE", message: "" } },
      new Promise<void>((resolve) => {
        release = resolve;
      }),
      "failed" as const,
    ];
    await page.route("**/user/profile", async (route) => {
      if (route.request().method() !== "PUT") return route.fallback();
      const answer = answers.shift();
      if (answer === "failed") return route.abort("connectionfailed");
      if (answer && "status" in answer) return route.fulfill(answer);
      await answer;
      return route.fallback();
    });
    await fillIn(page, { Name: "Bea" });
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByText("The server is busy. Trying again").waitFor();
    await page.getByRole("progressbar").waitFor();
    release();
    await page.getByText("Saved.").waitFor();
    await page.getByRole("progressbar").waitFor({ state: "detached" });
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByText("No connection to the server.").waitFor();
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByText("No connection to the server.").waitFor({ state: "detached" });
    expect(await web.app.sql("select name from users where id = ?", [user.id])).toEqual([{ name: "Bea" }]);
    await page.route("**/auth/logout", (route) => route.fulfill({ status: 429, json: { code: "RATE_LIMITED" } }));
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.getByText("Too many requests.").waitFor();
  });

  test("a page that can't be loaded says so, and is loaded again; a slow one shows progress", async () => {
    const { page } = await web.signIn(await web.app.addUser());
    await page.route("**/assets/Profile-*", (route) => route.abort("connectionfailed"), { times: 1 });
    await goTo(page, "/profile");
    await page.getByRole("alert").filter({ hasText: "could not be loaded" }).waitFor();
    await page.getByRole("button", { name: "Try again" }).click();
    await page.getByRole("heading", { name: "Profile" }).waitFor();
    const { promise: released, resolve: release } = Promise.withResolvers<void>();
    await page.route("**/assets/Sessions-*", (route) => released.then(() => route.fallback()));
    await goTo(page, "/sessions");
    await page.getByRole("progressbar").waitFor();
    release();
    await page.getByRole("heading", { name: "Sessions" }).waitFor();
  });
});
