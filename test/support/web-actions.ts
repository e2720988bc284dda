import type { Locator, Page } from "playwright-core";

/** Waits for a text. */
export const see = (on: Page | Locator, text: string | RegExp) => on.getByText(text).waitFor();

/** Waits for a heading. */
export const seeHeading = (page: Page, name: string) =>
  page.getByRole("heading", { name }).waitFor();

/** Waits for an alert with a text. */
export const seeAlert = (page: Page, hasText: string) =>
  page.getByRole("alert").filter({ hasText }).waitFor();

/**
 * Presses a button.
 * @param then a text that follows
 */
export async function press(
  on: Page | Locator,
  name: string,
  then?: string | RegExp,
): Promise<void> {
  await on.getByRole("button", { name }).click();
  if (then !== undefined) await see(on, then);
}

/** Fills in fields by their labels. */
export async function fillIn(on: Page | Locator, values: Record<string, string>): Promise<void> {
  for (const [label, value] of Object.entries(values))
    await on.getByLabel(label, { exact: true }).fill(value);
}

/**
 * Fills in a form and presses its button.
 * @param then a text that follows
 */
export async function submit(
  on: Page | Locator,
  values: Record<string, string>,
  button: string,
  then?: string | RegExp,
): Promise<void> {
  await fillIn(on, values);
  await press(on, button, then);
}

/** Fills in the form of the sign-in, and signs in. */
export const enter = (page: Page, user: { email: string; password: string }) =>
  submit(page, { "E-mail address": user.email, Password: user.password }, "Sign in");

/** Sends a message of the chat. */
export const say = (page: Page, message: string) => submit(page, { Message: message }, "Send");

/** Goes to a page of the app, as a link does. */
export async function goTo(page: Page, path: string): Promise<void> {
  await page.evaluate(`location.hash = ${JSON.stringify(path)}`);
}
