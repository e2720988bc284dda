import type { Config } from "../platform/config.ts";

/** What fills the `{placeholders}` of a template, and `name`, which greets: others may use an address before it is verified. */
type TemplateVariables = Record<string, string | undefined>;

const NOT_YOU = "If this was not you, reset your password at once and check your open sessions.";

/** Subject and paragraphs of each e-mail. */
const templates = {
  "verify-email": [
    "Confirm your e-mail address",
    "Please confirm that this is your e-mail address. The link works once, for {lifetime}.",
    "If you did not ask for this, you can ignore this e-mail.",
  ],
  "change-email": [
    "Confirm your new e-mail address",
    "You asked to use this address for your account from now on. It takes effect once you confirm it. The link works once, for {lifetime}.",
    "If you did not ask for this, you can ignore this e-mail.",
  ],
  "reset-password": [
    "Reset your password",
    "Somebody asked to reset the password of your account. The link works once, for {lifetime}.",
    "If it was not you, nothing has changed and you can ignore this e-mail.",
  ],
  "password-changed": [
    "Your password was changed",
    "The password of your account was changed and your other sessions have ended.",
    NOT_YOU,
  ],
  "password-reset": [
    "Your password was reset",
    "The password of your account was reset and all your sessions have ended. Please sign in.",
    NOT_YOU,
  ],
  "email-change-requested": [
    "A new e-mail address was requested",
    "Somebody signed in to your account asked to change its e-mail address to {newEmail}. It takes effect once that address is confirmed.",
    NOT_YOU,
  ],
  "address-in-use": [
    "Your address was given for another account",
    "Somebody entered this e-mail address for another account. That is not possible, since your account has it.",
    "If it was not you, nothing has changed and you can ignore this e-mail.",
  ],
  "email-changed": [
    "Your e-mail address was changed",
    "The e-mail address of your account is now {newEmail}.",
    "If this was not you, please tell the people who run this service at once: this address can no longer reset the password.",
  ],
  "mfa-enabled": [
    "Two-factor sign-in is on",
    "From your next sign-in on, your account asks for a code of your authenticator.",
    NOT_YOU,
  ],
  "mfa-disabled": [
    "Two-factor sign-in is off",
    "Your account no longer asks for a code of your authenticator.",
    NOT_YOU,
  ],
  "backup-codes-created": [
    "New backup codes were created",
    "New backup codes were created for your account. The old ones no longer work.",
    NOT_YOU,
  ],
  "backup-code-used": ["A backup code was used", "A backup code of your account was used; {left} are left.", NOT_YOU],
  "account-locked": [
    "Your account was locked for a while",
    "Your account was locked after several wrong passwords or codes in a row. Sessions that are open stay open.",
    "If this was not you, somebody is guessing. A reset of your password opens the account at once.",
  ],
  "wrong-code": [
    "Somebody knows your password",
    "Somebody entered the right password of your account, but a wrong code of the authenticator.",
    "If this was not you, reset your password at once.",
  ],
  "session-reused": [
    "A session was ended for your safety",
    "An old credential of your session on {device} was presented again, which can mean that it was copied. We have ended that session.",
    "Please sign in again. If anything looks strange, reset your password.",
  ],
  "deletion-requested": [
    "Your account will be deleted",
    "As requested, your account and its data will be deleted on {date}. To keep it, sign in before then.",
    NOT_YOU,
  ],
} satisfies Record<string, [subject: string, ...paragraphs: string[]]>;

/** Names of the e-mails we send; the e-mail log shows them. */
export type TemplateName = keyof typeof templates;

/** Pages of the front end that receive a token, and the texts of their links. */
const links: Partial<Record<TemplateName, [path: string, label: string]>> = {
  "verify-email": ["/verify-email", "Confirm my address"],
  "change-email": ["/verify-email", "Confirm my new address"],
  "reset-password": ["/reset-password", "Choose a new password"],
};

/** Formats a duration, such as "24 hours". @param lifetimeMs in ms */
export function formatDuration(lifetimeMs: number): string {
  const minutes = Math.max(1, Math.round(lifetimeMs / 60_000));
  const [count, unit] = minutes % 60 === 0 ? [minutes / 60, "hour"] : [minutes, "minute"];
  return `${count} ${unit}${count === 1 ? "" : "s"}`;
}

/** Renders a template. @param token text of the one-time token; shown beside the link too, for manual entry. */
export function renderEmail(
  template: TemplateName,
  variables: TemplateVariables,
  { appUrl, appName }: Pick<Config, "appUrl" | "appName">,
  token?: string,
): { subject: string; text: string; html: string } {
  const [subject, ...paragraphs] = templates[template];
  const fill = (paragraph: string) => paragraph.replace(/\{(\w+)\}/g, (_, name: string) => variables[name] ?? "");
  const greeting = variables.name === undefined ? "Hello," : `Hello ${variables.name},`;
  const signature = `This e-mail was sent by ${appName}.`;
  const text = [greeting, ...paragraphs.map(fill)];
  const html = text.map((line) => `<p>${escapeHtml(line)}</p>`);
  const [path, label] = links[template] ?? [];
  if (path && token) {
    const href = `${appUrl}${path}#token=${token}`;
    text.push(`${label}:\n${href}`, `Or enter this token by hand:\n${token}`);
    html.push(
      `<p><a href="${escapeHtml(href)}" style="display:inline-block;padding:10px 18px;border-radius:6px;background:#1f4fd8;color:#fff;text-decoration:none">${label}</a></p>`,
      `<p style="color:#555">Or enter this token by hand:<br><code style="word-break:break-all">${token}</code></p>`,
    );
  }
  text.push(signature);
  html.push(`<p style="color:#555">${escapeHtml(signature)}</p>`);
  return {
    subject,
    text: `${text.join("\n\n")}\n`,
    html: `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>${subject}</title></head><body style="font:16px/1.5 system-ui,sans-serif;color:#222;max-width:36em;margin:2em auto;padding:0 1em">${html.join("")}</body></html>`,
  };
}

const entities: Record<string, string> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };

function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => entities[character] ?? character);
}
