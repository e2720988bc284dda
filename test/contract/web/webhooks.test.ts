import { test } from "vitest";
import {
  CHROMIUM,
  describeWeb,
  expectAccessible,
  goTo,
  press,
  see,
  submit,
} from "../../support/browser.ts";
import { forTest } from "../../support/suites.ts";
import { startEndpoint, status, WEBHOOK_ENV } from "../../support/webhooks.ts";

describeWeb("Web app: webhooks", { browsers: CHROMIUM, env: WEBHOOK_ENV }, (web) => {
  test("an administrator creates, tests, changes, turns off and on, and deletes a webhook", async () => {
    const endpoint = await forTest(startEndpoint(status(500)));
    const tab = await web.signInAdmin();
    const { page } = tab;
    await goTo(page, "/admin/webhooks");
    await see(page, "There are no webhooks yet.");
    await press(page, "New webhook");
    const dialog = page.getByRole("dialog");
    const form = { URL: "http://10.0.0.1", Events: "user.*, auth.login" };
    await submit(dialog, form, "Create the webhook");
    await see(dialog, "must begin with https://");
    await submit(dialog, { URL: endpoint.url, Events: form.Events }, "Create the webhook");
    await see(dialog, /^whsec_/);
    await expectAccessible(tab);
    await press(dialog, "I have saved it");
    const row = page.getByRole("listitem").filter({ hasText: endpoint.url });
    await see(row, "user.*, auth.login");
    await press(row, "Send a test");
    await see(page, "The test is on its way. Its result appears in the deliveries below.");
    await endpoint.until("webhook.test");
    await goTo(page, "/admin/webhooks?status=failed");
    await see(page, "status 500");
    await expectAccessible(tab);
    await press(row, "Change");
    await submit(dialog, { "Description (optional)": "CRM" }, "Save");
    await see(row, "CRM");
    await press(row, "Change");
    await press(dialog, "Turn off");
    await see(row, "turned off");
    await press(row, "Change");
    await press(dialog, "Turn on");
    await press(row, "Change");
    await press(dialog, "Create a new secret");
    await see(dialog, /^whsec_/);
    await press(dialog, "I have saved it");
    await see(row, /signs with both secrets until/);
    await press(row, "Change");
    await press(dialog, "Delete the webhook");
    await see(page, "There are no webhooks yet.");
  });
});
