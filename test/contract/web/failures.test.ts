import type { Route } from "playwright-core";
import { expect, test } from "vitest";
import {
  describeWeb,
  enter,
  goTo,
  press,
  see,
  seeAlert,
  seeHeading,
  signOut,
  submit,
} from "../../support/browser.ts";

describeWeb("Web app: failures", {}, (web) => {
  test("429 and 423: show the reason, count down, and the form can be sent again after that, not before", async () => {
    const user = await web.app.addUser();
    await web.app.lock(user.email);
    const { page } = await web.open("/sign-in");
    const [button, timer] = [
      page.getByRole("button", { name: "Sign in" }),
      page.getByRole("timer"),
    ];
    const limited = {
      status: 429,
      headers: { "retry-after": "2" },
      json: { code: "RATE_LIMITED", message: "" },
    };
    await page.route("**/auth/login", (route) => route.fulfill(limited), { times: 1 });
    await enter(page, user);
    await seeAlert(page, "Too many requests.");
    expect(await button.isDisabled()).toBe(true);
    await button.click(); // waits until it is enabled
    await seeAlert(page, "Locked after too many failed attempts.");
    expect(await button.isDisabled()).toBe(true);
    const [first] = (await timer.textContent())?.match(/\d+:\d\d/) ?? [];
    await expect.poll(() => timer.textContent()).not.toContain(first);
  });

  test("503: is repeated automatically; slow requests show progress; a lost connection is reported", async () => {
    const user = await web.app.addUser();
    const { page, problems } = await web.signIn(user);
    await goTo(page, "/account/profile");
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
    expect(await web.app.sql("select name from users where id = ?", [user.id])).toEqual([
      { name: "Bea" },
    ]);
    await page.route("**/auth/logout", (route) =>
      route.fulfill({ status: 429, json: { code: "RATE_LIMITED" } }),
    );
    await signOut(page);
    await see(page, "Too many requests.");
    problems.length = 0; // those of the lost connection
  });

  test("a page that can't be loaded says so, and is loaded again; a slow one shows progress", async () => {
    const { page, problems } = await web.signInUser();
    await page.route("**/assets/Profile-*", (route) => route.abort("connectionfailed"), {
      times: 1,
    });
    await goTo(page, "/account/profile");
    await seeAlert(page, "could not be loaded");
    await press(page, "Try again");
    await seeHeading(page, "Profile");
    const { promise: released, resolve: release } = Promise.withResolvers<void>();
    await page.route("**/assets/Sessions-*", (route) => released.then(() => route.fallback()));
    await goTo(page, "/account/sessions");
    await page.getByRole("progressbar").waitFor();
    release();
    await seeHeading(page, "Sessions");
    problems.length = 0; // those of the lost connection
  });
});
