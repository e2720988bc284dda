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

const unavailable = { status: 503, json: { code: "UNAVAILABLE", message: "" } };
const limited = (seconds: number) => ({
  status: 429,
  headers: { "retry-after": String(seconds) },
  json: { code: "RATE_LIMITED", message: "" },
});

describeWeb("Web app: failures", {}, (web) => {
  test("429: the form shows the reason, and can be sent again only after the given time", async () => {
    const user = await web.app.addUser();
    const { page } = await web.open("/sign-in");
    const button = page.getByRole("button", { name: "Sign in" });
    await page.route("**/auth/login", (route) => route.fulfill(limited(2)), { times: 1 });
    await enter(page, user);
    await seeAlert(page, "Too many requests.");
    expect(await button.isDisabled()).toBe(true);
    await button.click(); // waits until it is enabled
    await seeHeading(page, "Chat");
  });

  test("423: the form shows the reason and counts down", async () => {
    const user = await web.app.addUser();
    await web.app.lock(user.email);
    const { page } = await web.open("/sign-in");
    const timer = page.getByRole("timer");
    await enter(page, user);
    await seeAlert(page, "This account is locked because of too many failed attempts.");
    expect(await page.getByRole("button", { name: "Sign in" }).isDisabled()).toBe(true);
    const [first] = (await timer.textContent())?.match(/\d+:\d\d/) ?? [];
    await expect.poll(() => timer.textContent()).not.toContain(first);
  });

  /** Signs in, opens the profile, and answers the next changes of it, one after the other. */
  async function openProfile(...answers: ((route: Route) => Promise<void>)[]) {
    const user = await web.app.addUser();
    const { page, problems } = await web.signIn(user);
    await goTo(page, "/account/profile");
    await page.route("**/user/profile", (route) => {
      const answer = route.request().method() === "PUT" ? answers.shift() : undefined;
      return answer ? answer(route) : route.fallback();
    });
    const nameOf = async () => {
      const [row] = await web.app.sql<{ name: string }>("select name from users where id = ?", [
        user.id,
      ]);
      return row?.name;
    };
    return { page, problems, nameOf };
  }

  test("503: a request is repeated automatically", async () => {
    const { page, problems, nameOf } = await openProfile((route) => route.fulfill(unavailable));
    await submit(page, { Name: "Bea" }, "Save", "The server is busy. Trying again");
    await see(page, "Saved.");
    expect(await nameOf()).toBe("Bea");
    problems.length = 0; // the browser's line about the 503
  });

  test("a slow request shows progress until its response", async () => {
    const { promise: released, resolve: release } = Promise.withResolvers<void>();
    const { page } = await openProfile((route) => released.then(() => route.fallback()));
    await press(page, "Save");
    await page.getByRole("progressbar").waitFor();
    release();
    await see(page, "Saved.");
    await page.getByRole("progressbar").waitFor({ state: "detached" });
  });

  test("a lost connection is reported until the next request succeeds", async () => {
    const { page, problems } = await openProfile((route) => route.abort("connectionfailed"));
    await press(page, "Save", "No connection to the server.");
    await press(page, "Save");
    await page.getByText("No connection to the server.").waitFor({ state: "detached" });
    problems.length = 0; // those of the lost connection
  });

  test("a refused sign-out is reported", async () => {
    const { page, problems } = await web.signInUser();
    await page.route("**/auth/logout", (route) => route.fulfill(limited(60)));
    await signOut(page);
    await see(page, "Too many requests.");
    problems.length = 0; // the browser's line about the 429
  });

  test("a page that cannot be loaded is reported, and can be loaded again", async () => {
    const { page, problems } = await web.signInUser();
    await page.route("**/assets/Profile-*", (route) => route.abort("connectionfailed"), {
      times: 1,
    });
    await goTo(page, "/account/profile");
    await seeAlert(page, "could not be loaded");
    await press(page, "Try again");
    await seeHeading(page, "Profile");
    problems.length = 0; // those of the lost connection
  });

  test("a page that loads slowly shows progress", async () => {
    const { page } = await web.signInUser();
    const { promise: released, resolve: release } = Promise.withResolvers<void>();
    await page.route("**/assets/Sessions-*", (route) => released.then(() => route.fallback()));
    await goTo(page, "/account/sessions");
    await page.getByRole("progressbar").waitFor();
    release();
    await seeHeading(page, "Sessions");
  });
});
