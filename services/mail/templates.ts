import type { Config } from "../platform/config/config.ts";
import german from "./texts/de.json" with { type: "json" };
import english from "./texts/en.json" with { type: "json" };

/** Names of the e-mails we send, as shown in the e-mail log. */
export type TemplateName = keyof typeof english.templates;

/** A paragraph, possibly one that appears only if a placeholder has a value. */
type Paragraph = string | { if: string; text: string };

/** The texts of an e-mail. The preheader is shown beside the subject in the list of e-mails. */
type Template = { subject: string; preheader: string; paragraphs: Paragraph[]; button?: string };

/** The texts of a language. `values` are the texts for values of placeholders, by placeholder. */
type Texts = {
  words: Record<keyof typeof english.words, string>;
  values: Record<string, Record<string, string>>;
  templates: Record<TemplateName, Template>;
};
const languages: Record<string, Texts> = { en: english, de: german };

/** Where the button of an e-mail leads. */
type Target = {
  /** A page of the front end, or the support of the installation: then there may be no button. */
  page: `/${string}` | "support";
  /** Whether the link carries the one-time token of the e-mail. */
  hasToken?: true;
};

const RESET: Target = { page: "/forgot-password" };
const SECURITY: Target = { page: "/account/security" };
/** Where the button of each e-mail leads. A button is what ends the cause, if the recipient did not want it. */
const targets: Record<TemplateName, Target | undefined> = {
  "verify-email": { page: "/verify-email", hasToken: true },
  "change-email": { page: "/verify-email", hasToken: true },
  "reset-password": { page: "/reset-password", hasToken: true },
  invitation: { page: "/reset-password?invitation", hasToken: true },
  "password-changed": RESET,
  "password-reset": RESET,
  "password-set": RESET,
  "password-removed": RESET,
  "api-key-created": RESET,
  "email-change-requested": RESET,
  "email-changed": { page: "support" },
  "address-in-use": undefined,
  "mfa-enabled": RESET,
  "mfa-disabled": RESET,
  "second-factor-changed": RESET,
  "backup-codes-created": RESET,
  "backup-code-used": RESET,
  "account-locked": RESET,
  "wrong-code": RESET,
  "session-reused": RESET,
  "deletion-requested": { page: "/sign-in" },
  "role-changed": { page: "support" },
  "administrators-changed": { page: "/admin/audit-log" },
  "passkey-added": RESET,
  "passkey-removed": RESET,
  "passkey-counter": SECURITY,
  "identity-added": SECURITY,
  "identity-removed": RESET,
  "account-taken-back": SECURITY,
};

/** E-mails whose recipient need not be the person who caused them: they do not say where that person is. */
const TO_ANYBODY: readonly TemplateName[] = [
  "verify-email",
  "change-email",
  "invitation",
  "address-in-use",
];

/** Whether an e-mail says when, where and on which device its cause happened. */
export const isNotice = (template: TemplateName): boolean => !TO_ANYBODY.includes(template);

/**
 * Values for the `{placeholders}` of a template. Times are ISO 8601, durations as `lifetimeOf` writes them.
 * `name` is used in the greeting; it is absent for an unverified address, which others may have entered.
 */
export type TemplateVariables = Record<string, string | undefined>;

/** What an e-mail shows of the installation. */
type MailBrand = Pick<Config, "appUrl" | "appName" | "appAccent"> &
  Partial<Pick<Config, "termsUrl" | "privacyUrl" | "supportUrl">>;

const MINUTE_MS = 60_000;

/**
 * A duration as a value for a template, such as `PT90M` for 90 minutes (ISO 8601).
 * @param lifetimeMs in ms
 */
export const lifetimeOf = (lifetimeMs: number): string =>
  `PT${Math.max(1, Math.round(lifetimeMs / MINUTE_MS))}M`;

/** A time that will have passed by the stated minute, as a value for a template: rounds up. */
export const endOf = (time: Date): string =>
  new Date(Math.ceil(time.getTime() / MINUTE_MS) * MINUTE_MS).toISOString();

const DURATION = /^PT(\d+)M$/;
const HOUR = 60;
const DAY = 24 * HOUR;

/** A duration in words, such as "24 hours" and from two days on "7 days". */
function formatDuration(minutes: number, language: string): string {
  const [size, unit] =
    minutes > DAY && minutes % DAY === 0
      ? [DAY, "day"]
      : minutes % HOUR === 0
        ? [HOUR, "hour"]
        : [1, "minute"];
  const style = { style: "unit", unit, unitDisplay: "long" } as const;
  return new Intl.NumberFormat(language, style).format(minutes / size);
}

/** A time in words, such as "24 December 2026 at 18:00 UTC". */
function formatTime(time: Date, language: string): string {
  const format = new Intl.DateTimeFormat(language === "en" ? "en-GB" : language, {
    dateStyle: "long",
    timeStyle: "short",
    timeZone: "UTC",
  });
  return `${format.format(time)} UTC`;
}

/** Placeholders whose values are times, and those whose values name a device, as `deviceOf` describes it. */
const TIMES = ["at", "until", "date", "expires"];
const DEVICES = ["client", "device"];

/** The text of a value. One that an older version has queued as a text is used as it is. */
function textOf(name: string, value: string, language: string, { words, values }: Texts): string {
  const known = values[name]?.[value];
  if (known !== undefined) return known;
  const [, minutes] = DURATION.exec(value) ?? [];
  if (name === "lifetime" && minutes) return formatDuration(Number(minutes), language);
  const time = new Date(value);
  if (TIMES.includes(name) && !Number.isNaN(time.getTime())) return formatTime(time, language);
  return DEVICES.includes(name) ? value.replace(" on ", ` ${words.on} `) : value;
}

/**
 * Colours are neutral and translucent, and texts have the colour of the mail client, so that the e-mail is
 * readable in light and dark mode. Text colours are never set without a background: some mail clients only
 * darken the background, which would leave dark text on a dark background.
 */
const LINE = "1px solid rgba(128,128,128,0.3)";
const BODY =
  "margin:0;padding:24px 12px;font:16px/1.5 -apple-system,'Segoe UI',Roboto,Helvetica,Arial,sans-serif";
const FRAME = "max-width:560px;margin:0 auto";
const CARD = `border:${LINE};border-radius:12px;padding:24px`;
const BRAND = "margin:0 0 16px;padding:0 4px;font-weight:600;font-size:18px";
const TITLE = "margin:0 0 16px;font-size:20px;line-height:1.3";
const ROWS = `margin:0 0 16px;border-collapse:collapse;font-size:14px;border-top:${LINE};width:100%`;
const ROW = `padding:8px 12px 8px 0;border-bottom:${LINE};text-align:left;vertical-align:top`;
const LABEL = `${ROW};font-weight:400;opacity:0.7;white-space:nowrap`;
const BUTTON =
  "display:inline-block;margin:8px 0;padding:10px 18px;border-radius:8px;color:#fff;font-weight:500;text-decoration:none";
const SMALL = "margin:8px 0 0;font-size:12px;opacity:0.7";
const FOOTER = "margin:16px 4px 0;font-size:13px;opacity:0.7";
/** Only for the list of e-mails. */
const HIDDEN = "display:none;max-height:0;overflow:hidden;opacity:0";
/** The e-mail is readable in light and dark mode, so no client has to change its colours. */
const SCHEMES = `<meta name="color-scheme" content="light dark">
<meta name="supported-color-schemes" content="light dark">
<style>:root{color-scheme:light dark;supported-color-schemes:light dark}</style>`;

/** Tell relays not to rewrite the link: SendGrid, SparkPost, Amazon SES. */
const UNTRACKED = 'clicktracking="off" data-msys-clicktrack="0" ses:no-track';

/** The rows about the circumstances of an e-mail, in their order. */
const ROW_NAMES = ["at", "place", "client", "by"] as const;

/** An e-mail as it is sent. */
export type RenderedEmail = { subject: string; text: string; html: string };

/**
 * Renders a template. Lines of the HTML are short enough to be sent without encoding.
 * @param token text of the one-time token; also shown in small type below the button, for manual entry
 * @param locale BCP 47 tag; English if there are no texts for it
 */
export function renderEmail(
  template: TemplateName,
  variables: TemplateVariables,
  brand: MailBrand,
  token?: string,
  locale?: string | null,
): RenderedEmail {
  const [base = ""] = (locale ?? "").split("-");
  const language = Object.hasOwn(languages, base) ? base : "en";
  const texts = languages[language] as Texts;
  const { words } = texts;
  const { subject, preheader, paragraphs, button } = texts.templates[template];
  const { appName, appAccent } = brand;
  const fill = (text: string, values: TemplateVariables = variables) =>
    text.replace(/\{(\w+)\}/g, (_, name: string) =>
      textOf(name, values[name] ?? "", language, texts),
    );
  const greeting = variables.name === undefined ? words.greetingWithoutName : fill(words.greeting);
  const shown = paragraphs.flatMap((each) => {
    if (typeof each === "string") return [each];
    return variables[each.if] ? [each.text] : [];
  });
  const rows = ROW_NAMES.flatMap((name) => {
    const value = variables[name];
    return value ? [{ label: words[name], value: textOf(name, value, language, texts) }] : [];
  });
  const link = linkOf(targets[template], brand, token);
  const signature = fill(words.signature, { app: appName });
  const links = [
    [words.support, brand.supportUrl],
    [words.terms, brand.termsUrl],
    [words.privacy, brand.privacyUrl],
  ].filter((each): each is [string, string] => each[1] !== undefined);

  const lines = [greeting, ...shown.map((paragraph) => fill(paragraph))];
  const text = [
    ...lines,
    ...(rows.length > 0 ? [rows.map(({ label, value }) => `${label}: ${value}`).join("\n")] : []),
    ...(link && button ? [`${button}:\n${link}`] : []),
    ...(link && token ? [`${words.byHand}\n${token}`] : []),
    [signature, ...links.map(([name, url]) => `${name}: ${url}`)].join("\n"),
  ];
  const html = [
    `<!doctype html>\n<html lang="${language}">\n<head>`,
    '<meta charset="utf-8">',
    '<meta name="viewport" content="width=device-width">',
    SCHEMES,
    `<title>${escapeHtml(subject)}</title>`,
    `</head>\n<body style="${BODY}">`,
    `<div style="${HIDDEN}">${escapeHtml(fill(preheader))}</div>`,
    `<div style="${FRAME}">\n<p style="${BRAND}">${escapeHtml(appName)}</p>`,
    `<div style="${CARD}">\n<h1 style="${TITLE}">${escapeHtml(subject)}</h1>`,
    ...lines.map((line) => `<p>${escapeHtml(line)}</p>`),
    ...(rows.length > 0 ? [`<table style="${ROWS}">`, ...rows.map(toRow), "</table>"] : []),
    ...(link && button
      ? [
          `<p style="margin:0"><a ${UNTRACKED} style="${BUTTON};background:${appAccent.light}"\nhref="${escapeHtml(link)}">${escapeHtml(button)}</a></p>`,
        ]
      : []),
    ...(link && token
      ? [
          `<p style="${SMALL}">${escapeHtml(words.byHand)}<br>\n<code style="word-break:break-all">${token}</code></p>`,
        ]
      : []),
    "</div>",
    `<p style="${FOOTER}">${[
      escapeHtml(signature),
      ...links.map(([name, url]) => `\n<a href="${escapeHtml(url)}">${escapeHtml(name)}</a>`),
    ].join(" ")}</p>`,
    "</div>\n</body>\n</html>\n",
  ];
  return { subject, text: `${text.join("\n\n")}\n`, html: html.join("\n") };
}

/** The address of a button; undefined if there is none. */
function linkOf(
  target: Target | undefined,
  { appUrl, supportUrl }: MailBrand,
  token: string | undefined,
): string | undefined {
  if (!target) return undefined;
  if (target.page === "support") return supportUrl;
  if (!target.hasToken) return appUrl + target.page;
  return token && `${appUrl}${target.page}#token=${token}`;
}

const toRow = ({ label, value }: { label: string; value: string }) =>
  `<tr><th style="${LABEL}">${escapeHtml(label)}</th><td style="${ROW};width:100%">${escapeHtml(value)}</td></tr>`;

const entities: Record<string, string> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
};

/** Escapes characters with a meaning in HTML, and all non-ASCII characters, so that the text needs no encoding. */
function escapeHtml(text: string): string {
  return text.replace(
    /[&<>"']|[^\t\n\x20-\x7e]/gu,
    (character) => entities[character] ?? `&#${character.codePointAt(0)};`,
  );
}
