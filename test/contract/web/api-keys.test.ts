import { expect, test } from "vitest";
import { createKey, keyStatus } from "../../support/api-keys.ts";
import {
  CHROMIUM,
  describeWeb,
  expectAccessible,
  fillIn,
  goTo,
  press,
  see,
  submit,
} from "../../support/browser.ts";

describeWeb("Web app: API keys", { browsers: CHROMIUM }, (web) => {
  test("a user creates a key, sees it once and revokes it", async () => {
    const tab = await web.signInUser();
    const { page } = tab;
    await goTo(page, "/account/api-keys");
    await press(page, "New API key");
    const dialog = page.getByRole("dialog");
    await submit(dialog, { Name: "CI", Models: "gpt-none" }, "Create the key");
    await see(dialog, "models[0]");
    await submit(dialog, { Models: "model-a-1" }, "Create the key");
    const shown = dialog.getByText(/^sk-gate-[0-9A-Za-z]{38}$/);
    await shown.waitFor();
    const key = await shown.innerText();
    await see(
      dialog,
      `export OPENAI_BASE_URL=${new URL(page.url()).origin}/v1 OPENAI_API_KEY=${key}`,
    );
    await expectAccessible(tab);
    await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
    await dialog.getByRole("button", { name: "Copy" }).first().click();
    await see(dialog, "Copied."); // outside it would be below the backdrop
    expect(await page.evaluate("navigator.clipboard.readText()")).toBe(key);
    expect(await keyStatus(web.app, key)).toBe(200);
    await press(dialog, "I have saved it");
    await see(page, `${key.slice(8, 12)}...${key.slice(36, 40)}`);
    expect(await page.getByText(key).count()).toBe(0);
    await press(page, "Revoke");
    await see(page, "You have no API keys.");
    expect(await keyStatus(web.app, key)).toBe(401);
  });

  test("an administrator creates a service account with a key, and revokes the key of a user", async () => {
    const { key, apiKey } = await createKey(await web.app.signIn(), { name: "Leaked" });
    const { page } = await web.signInAdmin();
    await goTo(page, "/admin/service-accounts");
    await press(page, "Create a service account");
    const name = { Name: "Nightly report" };
    await submit(page.getByRole("dialog"), name, "Create a service account");
    await see(page, "The service account has been created.");
    await press(page, "New API key");
    await submit(page.getByRole("dialog"), { Name: "CI" }, "Create the key");
    const shown = page.getByRole("dialog").getByText(/^sk-gate-[0-9A-Za-z]{38}$/);
    await shown.waitFor();
    expect(await keyStatus(web.app, await shown.innerText())).toBe(200);
    await press(page, "I have saved it");
    await goTo(page, "/admin/api-keys");
    await fillIn(page, { "Search by name or hint": apiKey.hint });
    const row = page.getByRole("listitem").filter({ hasText: "Leaked" });
    await press(row.first(), "Revoke");
    await see(page, "The key has been revoked.");
    expect(await keyStatus(web.app, key)).toBe(401);
  });
});
