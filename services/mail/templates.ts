import type { Config } from "../platform/config.ts";

export type TemplateVariables = {
  /** Display name of the recipient. Only for addresses that the recipient has verified: others receive it unasked. */
  name?: string;
  [variable: string]: string | undefined;
};

export type RenderedEmail = { subject: string; text: string; html: string };

type Template = {
  subject: string;
  paragraphs: (variables: TemplateVariables) => string[];
  /** Page of the front end that receives the token. */
  link?: { path: string; label: string };
};

const notYou = "If this was not you, reset your password at once and check your open sessions.";

const templates = {
  "verify-email": {
    subject: "Confirm your e-mail address",
    paragraphs: ({ lifetime }) => [
      `Please confirm that this is your e-mail address. The link works once, for ${lifetime}.`,
      "If you did not ask for this, you can ignore this e-mail.",
    ],
    link: { path: "/verify-email", label: "Confirm my address" },
  },
  "change-email": {
    subject: "Confirm your new e-mail address",
    paragraphs: ({ lifetime }) => [
      `You asked to use this address for your account from now on. It takes effect once you confirm it. The link works once, for ${lifetime}.`,
      "If you did not ask for this, you can ignore this e-mail.",
    ],
    link: { path: "/verify-email", label: "Confirm my new address" },
  },
  "reset-password": {
    subject: "Reset your password",
    paragraphs: ({ lifetime }) => [
      `Somebody asked to reset the password of your account. The link works once, for ${lifetime}.`,
      "If it was not you, nothing has changed and you can ignore this e-mail.",
    ],
    link: { path: "/reset-password", label: "Choose a new password" },
  },
  "password-changed": {
    subject: "Your password was changed",
    paragraphs: () => ["The password of your account was changed and your other sessions have ended.", notYou],
  },
  "password-reset": {
    subject: "Your password was reset",
    paragraphs: () => [
      "The password of your account was reset and all your sessions have ended. Please sign in.",
      notYou,
    ],
  },
  "email-change-requested": {
    subject: "A new e-mail address was requested",
    paragraphs: ({ newEmail }) => [
      `Somebody signed in to your account asked to change its e-mail address to ${newEmail}. It takes effect once that address is confirmed.`,
      notYou,
    ],
  },
  "address-in-use": {
    subject: "Your address was given for another account",
    paragraphs: () => [
      "Somebody entered this e-mail address for another account. That is not possible, since your account has it.",
      "If it was not you, nothing has changed and you can ignore this e-mail.",
    ],
  },
  "email-changed": {
    subject: "Your e-mail address was changed",
    paragraphs: ({ newEmail }) => [
      `The e-mail address of your account is now ${newEmail}.`,
      "If this was not you, please tell the people who run this service at once: this address can no longer reset the password.",
    ],
  },
  "mfa-enabled": {
    subject: "Two-factor sign-in is on",
    paragraphs: () => ["From your next sign-in on, your account asks for a code of your authenticator.", notYou],
  },
  "mfa-disabled": {
    subject: "Two-factor sign-in is off",
    paragraphs: () => ["Your account no longer asks for a code of your authenticator.", notYou],
  },
  "backup-codes-created": {
    subject: "New backup codes were created",
    paragraphs: () => ["New backup codes were created for your account. The old ones no longer work.", notYou],
  },
  "backup-code-used": {
    subject: "A backup code was used",
    paragraphs: ({ left }) => [`A backup code of your account was used; ${left} are left.`, notYou],
  },
  "account-locked": {
    subject: "Your account was locked for a while",
    paragraphs: () => [
      "Your account was locked after several wrong passwords or codes in a row. Sessions that are open stay open.",
      "If this was not you, somebody is guessing. A reset of your password opens the account at once.",
    ],
  },
  "wrong-code": {
    subject: "Somebody knows your password",
    paragraphs: () => [
      "Somebody entered the right password of your account, but a wrong code of the authenticator.",
      "If this was not you, reset your password at once.",
    ],
  },
  "session-reused": {
    subject: "A session was ended for your safety",
    paragraphs: ({ device }) => [
      `An old credential of your session on ${device} was presented again, which can mean that it was copied. We have ended that session.`,
      "Please sign in again. If anything looks strange, reset your password.",
    ],
  },
  "deletion-requested": {
    subject: "Your account will be deleted",
    paragraphs: ({ date }) => [
      `As requested, your account and its data will be deleted on ${date}. To keep it, sign in before then.`,
      notYou,
    ],
  },
} satisfies Record<string, Template>;

/** Formats a duration, such as "24 hours". @param lifetimeMs in ms */
export function formatDuration(lifetimeMs: number): string {
  const minutes = Math.max(1, Math.round(lifetimeMs / 60_000));
  const [count, unit] = minutes % 60 === 0 ? [minutes / 60, "hour"] : [minutes, "minute"];
  return `${count} ${unit}${count === 1 ? "" : "s"}`;
}

/** Names of the e-mails we send; the e-mail log shows them. */
export type TemplateName = keyof typeof templates;

/** Renders a template. @param token text of the one-time token; shown beside the link too, for manual entry. */
export function renderEmail(
  name: TemplateName,
  variables: TemplateVariables,
  { appUrl, appName }: Pick<Config, "appUrl" | "appName">,
  token?: string,
): RenderedEmail {
  const template: Template = templates[name];
  const greeting = variables.name === undefined ? "Hello," : `Hello ${variables.name},`;
  const paragraphs = template.paragraphs(variables);
  const signature = `This e-mail was sent by ${appName}.`;
  const text = [greeting, ...paragraphs];
  const html = text.map((line) => `<p>${escapeHtml(line)}</p>`);
  if (template.link && token) {
    const { path, label } = template.link;
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
    subject: template.subject,
    text: `${text.join("\n\n")}\n`,
    html: `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>${template.subject}</title></head><body style="font:16px/1.5 system-ui,sans-serif;color:#222;max-width:36em;margin:2em auto;padding:0 1em">${html.join("")}</body></html>`,
  };
}

const entities: Record<string, string> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };

function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => entities[character] ?? character);
}
