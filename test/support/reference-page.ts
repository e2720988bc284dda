import type { Page } from "playwright-core";

/** Part of the address of GET /user/profile at /docs. */
export const PROFILE_SECTION = "#tag/user/GET/user/profile";

/** Sends GET /user/profile from the API reference, which the page shows at that section. */
export async function sendProfileRequest(page: Page): Promise<void> {
  const section = page.locator("section", { has: page.getByRole("heading", { name: "Get Profile" }) }).last();
  await section.getByText("--header").first().waitFor(); // the sample in curl
  await section.getByRole("button", { name: /Test Request/ }).click();
  await page.getByRole("button", { name: "Send", exact: false }).first().click();
}
