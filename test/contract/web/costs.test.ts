import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { conversationOf } from "../../support/ai/calls.ts";
import { pricedCatalogue } from "../../support/ai/priced-catalogue.ts";
import {
  chooseLanguage,
  chooseModel,
  describeWeb,
  expectAccessible,
  goTo,
  say,
  seeHeading,
  type Tab,
} from "../../support/browser.ts";

/** Waits for a text that may be shown more than once. */
const see = ({ page }: Tab, text: string) => page.getByText(text).first().waitFor();

describeWeb("Web app: costs", { env: { AI_CATALOG: pricedCatalogue() } }, (web) => {
  /** A call of 1,000,000 output tokens, of which 400,000 are reasoning: 15 EUR. */
  const BILLED = "case: billed 1,1000000,0,0,0,400000";

  test("users see their own cost, and administrators the cost of all, in both languages", async () => {
    const user = await web.app.addUser({ name: "Carla" });
    const { post } = await web.app.signIn(user);
    await post("/ai/chat", conversationOf(BILLED, "provider-b"));
    await web.app.sql(
      `insert into ai_usage (id, user_id, provider, model, outcome, created_at)
       values (gen_random_uuid(), ?, 'provider-x', 'model-x', 'completed', ?)`,
      [user.id, web.app.clock.now()],
    );
    const own = await web.signIn(user);
    await goTo(own.page, "/account/usage");
    await see(own, "€15.00");
    await see(own, "Calls of unknown price: 1");
    await own.page.getByText("As a table").click();
    await own.page.getByRole("columnheader", { name: "Cost" }).waitFor();
    await own.page.getByRole("cell", { name: "400,000" }).waitFor();
    await expectAccessible(own);
    await chooseLanguage(own.page, "Deutsch");
    await see(own, "Kosten");
    await see(own, "15,00 €");
    await see(own, "Aufrufe mit unbekanntem Preis: 1");

    const admin = await web.signInAdmin();
    const { page } = admin;
    await goTo(page, "/admin");
    await seeHeading(page, "Overview");
    await admin.page.getByRole("link", { name: "Cost" }).waitFor();
    await see(admin, "€15.00");
    await expectAccessible(admin);
    await goTo(page, "/admin/usage");
    await see(admin, "€15.00");
    await see(admin, "Prices as of 28 Nov 2026");
    await page.getByRole("group", { name: "Show" }).getByRole("button", { name: "Cost" }).click();
    await page.getByRole("img", { name: "Cost per day" }).locator("canvas").waitFor();
    await expectAccessible(admin);
    const saved = web.name === "Chromium" ? page.waitForEvent("download") : undefined; // Firefox reports none of blobs
    await page.getByRole("button", { name: "Export CSV" }).click();
    const file = await saved;
    if (file)
      expect(readFileSync(await file.path(), "utf8")).toMatch(
        /^day,userId,userName,.*,Carla,.*,15(\.\d+)?,EUR,0\r\n/s,
      );
    await chooseLanguage(page, "Deutsch");
    await see(admin, "Preise vom 28.11.2026");
    await goTo(page, "/admin");
    await page.getByRole("link", { name: "Kosten" }).waitFor();
  });

  test("the cost of a reply is shown beside its tokens", async () => {
    const tab = await web.signInUser();
    const { page } = tab;
    await chooseModel(page, "model-b-1");
    await say(page, BILLED);
    await see(tab, "1,000,000 tokens · €15.00");
    await page.reload();
    await see(tab, "1,000,000 tokens · €15.00");
  });
});
