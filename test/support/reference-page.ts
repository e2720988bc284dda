import type { Page } from "playwright-core";

/** The fragment of GET /user/profile in the address of /docs. */
export const PROFILE_SECTION = "#tag/user/GET/user/profile";

/** Sends GET /user/profile from the API reference. The page shows its section. */
export async function sendProfileRequest(page: Page): Promise<void> {
  const section = page.locator("section", { has: page.getByRole("heading", { name: "Get Profile" }) }).last();
  await section.getByText("--header").first().waitFor(); // the sample in curl
  await section.getByRole("button", { name: /Test Request/ }).click();
  await page.getByRole("button", { name: "Send", exact: false }).first().click();
}
