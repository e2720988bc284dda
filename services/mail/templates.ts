import type { Config } from "../platform/config/config.ts";
import { type Logo, readLogo } from "../platform/process/logo-file.ts";
import {
  type LayoutValues,
  PLACEHOLDER,
  readMailTexts,
  type TemplateName,
  type Texts,
} from "./texts.ts";

/** Where the button of an e-mail leads. */
type Target = {
  /** A page of the front end, or the support of the installation: then there may be no button. */
  page: `/${string}` | "support";
  /** Whether the link carries the one-time token of the e-mail. */
  hasToken?: true;
};

const RESET: Target = { page: "/forgot-password" };
const SECURITY: Target = { page: "/account/security" };
/**
 * Where the button of each e-mail leads. A button is what ends the cause, if the recipient did not
 * want it.
 */
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
  "passkey-added": SECURITY,
  "passkey-removed": RESET,
  "passkey-counter": SECURITY,
  "identity-added": SECURITY,
  "identity-removed": RESET,
  "account-taken-back": SECURITY,
  "budget-alert": { page: "/account/usage" },
  "budget-exceeded": { page: "/account/usage" },
  "webhook-disabled": { page: "/admin/webhooks" },
  "new-device": { page: "/not-me", hasToken: true },
  "email-code": { page: "/email-code", hasToken: true },
};

/** Where the second link of an e-mail leads. */
const otherTargets: Partial<Record<TemplateName, Target>> = {
  "verify-email": { page: "/not-me?account", hasToken: true },
};

/**
 * E-mails whose recipient need not be the person who caused them: they do not say where that person
 * is.
 */
const TO_ANYBODY: readonly TemplateName[] = [
  "verify-email",
  "change-email",
  "invitation",
  "address-in-use",
  "budget-alert",
  "budget-exceeded",
  "webhook-disabled",
];

/** Whether an e-mail says when, where and on which device its cause happened. */
export const isNotice = (template: TemplateName): boolean => !TO_ANYBODY.includes(template);

/**
 * Values for the `{placeholders}` of a template. Times are ISO 8601, durations as `lifetimeOf`
 * writes them. `name` is used in the greeting; it is absent for an unverified address, which others
 * may have entered.
 */
export type TemplateVariables = Record<string, string | undefined>;

/** What an e-mail shows of the installation. */
type MailBrand = Pick<Config, "appUrl" | "appName" | "appAccent"> &
  Partial<Pick<Config, "termsUrl" | "privacyUrl" | "supportUrl" | "appLogo" | "mailTemplates">>;

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

/** An amount with all of its digits, such as 100,000. */
function formatAmount(value: string, language: string): string {
  const [, decimals = ""] = value.split(".");
  const style = { minimumFractionDigits: decimals.length, maximumFractionDigits: decimals.length };
  return new Intl.NumberFormat(language, style).format(Number(value));
}

/**
 * Placeholders whose values are times, and those whose values name a device, as `deviceOf`
 * describes it.
 */
const TIMES = ["at", "until", "date", "expires"];
const DEVICES = ["client", "device"];

/** The text of a value. One that an older version has queued as a text is used as it is. */
function textOf(name: string, value: string, language: string, { words, values }: Texts): string {
  const known = values[name] ?? {};
  if (Object.hasOwn(known, value)) return known[value] ?? value;
  const [, minutes] = DURATION.exec(value) ?? [];
  if (name === "lifetime" && minutes) return formatDuration(Number(minutes), language);
  if (name === "limit" && /^\d+(\.\d+)?$/.test(value)) return formatAmount(value, language);
  const time = new Date(value);
  if (TIMES.includes(name) && !Number.isNaN(time.getTime())) return formatTime(time, language);
  return DEVICES.includes(name) ? value.replace(" on ", ` ${words.on} `) : value;
}

/**
 * Colours are neutral and translucent, and texts have the colour of the mail client, so that the
 * e-mail is readable in light and dark mode. Text colours are never set without a background: some
 * mail clients only darken the background, which would leave dark text on a dark background.
 */
const LINE = "1px solid rgba(128,128,128,0.3)";
const ROWS = `margin:0 0 16px;border-collapse:collapse;font-size:14px;border-top:${LINE};width:100%`;
const ROW = `padding:8px 12px 8px 0;border-bottom:${LINE};text-align:left;vertical-align:top;word-break:break-word`;
const LABEL = `${ROW};font-weight:400;opacity:0.75;white-space:nowrap`;
const BUTTON =
  "display:inline-block;margin:8px 0;padding:10px 18px;border-radius:8px;color:#fff;font-weight:500;text-decoration:none";
const SMALL = "margin:8px 0 0;font-size:12px;opacity:0.75";
const LOGO = "border-radius:6px;margin-right:10px;vertical-align:middle";
/** Stands in for a logo, as in the web app: the first letter of the name. */
const MARK = `${LOGO};display:inline-block;width:28px;line-height:28px;text-align:center;color:#fff;font-size:14px`;
const CODE = "font-size:28px;font-weight:600;line-height:1.3;letter-spacing:6px";

/** Tell relays not to rewrite the link: SendGrid, SparkPost, Amazon SES. */
const UNTRACKED = 'clicktracking="off" data-msys-clicktrack="0" ses:no-track';

/** The rows about the circumstances of an e-mail, in their order. */
const ROW_NAMES = ["at", "place", "client", "by"] as const;

/** Content-ID of the logo. */
export const LOGO_CID = "logo";

/** An e-mail as it is sent. `logo`: the image that the HTML shows as `cid:logo`. */
export type RenderedEmail = { subject: string; text: string; html: string; logo?: Logo };

/** What an e-mail is rendered from. */
export type EmailToRender = {
  template: TemplateName;
  variables: TemplateVariables;
  /** BCP 47 tag; English if there are no texts for it. */
  locale?: string | null | undefined;
  /**
   * Text of the one-time token; also shown in small type below the button, for manual entry. Null
   * for a preview: its button leads to the page without a token.
   */
  token?: string | null | undefined;
};

/** Renders e-mails. Lines of the HTML are short enough to be sent without encoding. */
export type RenderEmail = (email: EmailToRender) => RenderedEmail;

/**
 * Creates the renderer of an installation, with its logo and its texts. E-mail clients don't show
 * SVG, so only a PNG is sent along.
 * @throws Error for operators
 */
export function createRenderEmail(brand: MailBrand): RenderEmail {
  const { languages, layout } = readMailTexts(brand.mailTemplates);
  const file = readLogo(brand.appLogo);
  const logo = file?.type === "image/png" ? file : undefined;
  return (email) => {
    const [base = ""] = (email.locale ?? "").split("-");
    const language = Object.hasOwn(languages, base) ? base : "en";
    const { subject, text, ...parts } = partsOf(
      email,
      brand,
      language,
      languages[language] as Texts,
    );
    const values: LayoutValues = {
      ...{ ...parts, language, subject: escapeHtml(subject), app: escapeHtml(brand.appName) },
      logo: logo
        ? `<img src="cid:${LOGO_CID}" alt="" height="28" style="${LOGO};max-width:200px">\n`
        : toMark(brand),
    };
    const html = layout.replace(
      PLACEHOLDER,
      (_, name: string) => values[name as keyof LayoutValues] ?? "",
    );
    return { subject, text, html, ...(logo && { logo }) };
  };
}

/** The parts of an e-mail: subject and text, and what its layout needs, in HTML. */
function partsOf(
  { template, variables, token }: EmailToRender,
  brand: MailBrand,
  language: string,
  texts: Texts,
) {
  const { words } = texts;
  const { subject, preheader, paragraphs, button, other } = texts.templates[template];
  const { appName, appAccent } = brand;
  const values: TemplateVariables = { app: appName, ...variables };
  const fill = (text: string) =>
    text.replace(PLACEHOLDER, (_, name: string) =>
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
  const signature = fill(words.signature);
  const typedToken = link && typedOf(template, token);
  const second = secondLink(other, linkOf(otherTargets[template], brand, token));
  const links = [
    [words.support, brand.supportUrl],
    [words.terms, brand.termsUrl],
    [words.privacy, brand.privacyUrl],
  ].filter((each): each is [string, string] => each[1] !== undefined);

  const lines = [greeting, ...shown.map(fill)];
  const text = [
    ...lines,
    ...(rows.length > 0 ? [rows.map(({ label, value }) => `${label}: ${value}`).join("\n")] : []),
    ...(link && button ? [`${button}:\n${link}`] : []),
    ...second.text,
    ...(typedToken ? [`${words.byHand}\n${typedToken}`] : []),
    [signature, ...links.map(([name, url]) => `${name}: ${url}`)].join("\n"),
  ];
  const content = [
    ...lines.map((line) => `<p>${showCode(escapeHtml(line), variables.code)}</p>`),
    ...(rows.length > 0 ? [`<table style="${ROWS}">`, ...rows.map(toRow), "</table>"] : []),
    ...(link && button
      ? [
          `<p style="margin:0"><a ${UNTRACKED} style="${BUTTON};background:${appAccent.light}"\nhref="${escapeHtml(link)}">${escapeHtml(button)}</a></p>`,
        ]
      : []),
    ...second.html,
    ...(typedToken
      ? [
          `<p style="${SMALL}">${escapeHtml(words.byHand)}<br>\n<code style="word-break:break-all">${typedToken}</code></p>`,
        ]
      : []),
  ].join("\n");
  const footer = [
    escapeHtml(signature),
    ...(links.length > 0
      ? [
          links
            .map(([name, url]) => `<a href="${escapeHtml(url)}">${escapeHtml(name)}</a>`)
            .join("\n&middot; "),
        ]
      : []),
  ].join("<br>\n");
  return {
    ...{ subject: fill(subject), text: `${text.join("\n\n")}\n`, content, footer },
    preheader: escapeHtml(fill(preheader)),
  };
}

/** A code is large and on a line of its own. */
const showCode = (html: string, code: string | undefined): string =>
  code ? html.replace(code, () => `<br><strong style="${CODE}">${code}</strong>`) : html;

/**
 * The first letter of the name. It says nothing to people who hear the e-mail: the name follows.
 */
function toMark({ appName, appAccent }: MailBrand): string {
  const [letter = ""] = [...appName].map((each) => each.toUpperCase());
  return `<span aria-hidden="true" style="${MARK};background:${appAccent.light}">${escapeHtml(letter)}</span>\n`;
}

/** The token as it is shown for typing; an e-mail with a code shows none next to it. */
const typedOf = (template: TemplateName, token: string | null | undefined) =>
  template === "email-code" ? undefined : token;

/** The parts of an e-mail with a second link; none without one. */
function secondLink(name: string | undefined, link: string | undefined) {
  if (!name || !link) return { text: [], html: [] };
  const html = `<p style="margin:8px 0"><a ${UNTRACKED}\nhref="${escapeHtml(link)}">${escapeHtml(name)}</a></p>`;
  return { text: [`${name}:\n${link}`], html: [html] };
}

/** The address of a button; undefined if there is none. */
function linkOf(
  target: Target | undefined,
  { appUrl, supportUrl }: MailBrand,
  token: string | null | undefined,
): string | undefined {
  if (!target) return undefined;
  if (target.page === "support") return supportUrl;
  if (!target.hasToken || token === null) return appUrl + target.page;
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

/**
 * Escapes characters with a meaning in HTML, and all non-ASCII characters, so that the text needs
 * no encoding.
 */
function escapeHtml(text: string): string {
  return text.replace(
    /[&<>"']|[^\t\n\x20-\x7e]/gu,
    (character) => entities[character] ?? `&#${character.codePointAt(0)};`,
  );
}
