import type { Route } from "playwright-core";
import { expect, test } from "vitest";
import { fillIn, goTo, press, see, seeAlert, seeHeading, submit } from "../../support/web-actions.ts";
import { describeWeb } from "../../support/web-fixture.ts";

describeWeb("Web app: failures", (web) => {
  test("423: shows the reason, counts down, and refuses further attempts until then", async () => {
    const user = await web.app.addUser();
    await web.app.lock(user.email);
    const { page } = await web.open("/sign-in");
    await fillIn(page, { "E-mail address": user.email, Password: user.password });
    const button = page.getByRole("button", { name: "Sign in" });
    await button.click();
    await seeAlert(page, "Locked after too many failed attempts.");
    const [first] = (await page.getByRole("timer").textContent())?.match(/\d+:\d\d/) ?? [];
    expect(await button.isDisabled()).toBe(true);
    await expect.poll(() => page.getByRole("timer").textContent()).not.toContain(first);
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
    await submit(page, { "E-mail address": "unknown@example.com" }, "Send the link");
    await page.getByRole("alert").filter({ hasText: "Too many requests." }).getByRole("timer").waitFor();
    await press(page, "Send the link"); // waits until it is enabled
    await see(page, "an e-mail is on its way");
  });

  test("503: is repeated automatically; slow requests show progress; a lost connection is reported", async () => {
    const user = await web.app.addUser();
    const { page, problems } = await web.signIn(user);
    await goTo(page, "/profile");
    const { promise: released, resolve: release } = Promise.withResolvers<void>();
    const answers = [
      (route: Route) => route.fulfill({ status: 503, json: { code: "UNAVAILABLE", message: "" } }),
      (route: Route) => released.then(() => route.fallback()),
      (route: Route) => route.abort("connectionfailed"),
    ];
    await page.route("**/user/profile", (route) => {
      const answer = route.request().method() === "PUT" ? answers.shift() : undefined;
      return answer ? answer(route) : route.fallback();
    });
    await submit(page, { Name: "Bea" }, "Save", "The server is busy. Trying again");
    await page.getByRole("progressbar").waitFor();
    release();
    await see(page, "Saved.");
    await page.getByRole("progressbar").waitFor({ state: "detached" });
    await press(page, "Save", "No connection to the server.");
    await press(page, "Save");
    await page.getByText("No connection to the server.").waitFor({ state: "detached" });
    expect(await web.app.sql("select name from users where id = ?", [user.id])).toEqual([{ name: "Bea" }]);
    await page.route("**/auth/logout", (route) => route.fulfill({ status: 429, json: { code: "RATE_LIMITED" } }));
    await press(page, "Sign out", "Too many requests.");
    problems.length = 0; // those of the lost connection
  });

  test("a page that can't be loaded says so, and is loaded again; a slow one shows progress", async () => {
    const { page, problems } = await web.signIn(await web.app.addUser());
    await page.route("**/assets/Profile-*", (route) => route.abort("connectionfailed"), { times: 1 });
    await goTo(page, "/profile");
    await seeAlert(page, "could not be loaded");
    await press(page, "Try again");
    await seeHeading(page, "Profile");
    const { promise: released, resolve: release } = Promise.withResolvers<void>();
    await page.route("**/assets/Sessions-*", (route) => released.then(() => route.fallback()));
    await goTo(page, "/sessions");
    await page.getByRole("progressbar").waitFor();
    release();
    await seeHeading(page, "Sessions");
    problems.length = 0; // those of the lost connection
  });
});
