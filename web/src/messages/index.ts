import { account } from "./account.ts";
import { admin } from "./admin.ts";
import { chat } from "./chat.ts";
import { common } from "./common.ts";
import { errors } from "./errors.ts";
import { events, sentences } from "./events.ts";
import { external } from "./external.ts";
import { passkeys } from "./passkeys.ts";
import { providers } from "./providers.ts";
import { templates } from "./templates.ts";
import { webhooks } from "./webhooks.ts";

/** The catalogue: every text of the app in English and German. */
export const messages = {
  ...common,
  ...errors,
  ...account,
  ...passkeys,
  ...external,
  ...chat,
  ...admin,
  ...events,
  ...sentences,
  ...providers,
  ...templates,
  ...webhooks,
};
export type MessageKey = keyof typeof messages;

/** The key of a violation that the API reports, with its numbers as `{0}`, `{1}`. */
export function violationKey(message: string): string {
  let count = 0;
  return `violations.${message.replace(/\d+/g, () => `{${count++}}`)}`;
}
