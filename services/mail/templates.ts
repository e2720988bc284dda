import type { Config } from "../platform/config/config.ts";
import texts from "./templates.json" with { type: "json" };

/** Names of the e-mails we send, as shown in the e-mail log. */
export type TemplateName = keyof typeof texts;

/** A template: its texts, and the front-end page that receives its token. */
type Template = { subject: string; paragraphs: string[]; link?: { path: string; label: string } };
const templates: Record<TemplateName, Template> = texts;

/**
 * Values for the `{placeholders}` of a template. `name` is used in the greeting; it is absent for an
 * unverified address, which others may have entered.
 */
type TemplateVariables = Record<string, string | undefined>;

const MINUTES_PER_DAY = 24 * 60;
/** What an e-mail shows of the installation. */
type MailBrand = Pick<Config, "appUrl" | "appName" | "appAccent"> &
  Partial<Pick<Config, "termsUrl" | "privacyUrl" | "supportUrl">>;

const linksOf = ({ supportUrl, termsUrl, privacyUrl }: MailBrand) =>
  Object.entries({ Support: supportUrl, Terms: termsUrl, Privacy: privacyUrl }).filter(
    (link): link is [string, string] => link[1] !== undefined,
  );

/**
 * Formats a duration, such as "24 hours".
 * @param lifetimeMs in ms
 */
export function formatDuration(lifetimeMs: number): string {
  const minutes = Math.max(1, Math.round(lifetimeMs / 60_000));
  const days = minutes / MINUTES_PER_DAY;
  if (days > 1 && Number.isInteger(days)) return `${days} days`;
  const [count, unit] = minutes % 60 === 0 ? [minutes / 60, "hour"] : [minutes, "minute"];
  return `${count} ${unit}${count === 1 ? "" : "s"}`;
}

const MINUTE_MS = 60_000;

/** Formats a time that will have passed by the stated minute, such as "2026-12-24 18:00 UTC": rounds up. */
export function formatEnd(time: Date): string {
  const minute = new Date(Math.ceil(time.getTime() / MINUTE_MS) * MINUTE_MS);
  return `${minute.toISOString().slice(0, 16).replace("T", " ")} UTC`;
}

/**
 * Text colours are never set without a background: some mail clients only darken the background, which
 * would leave dark text on a dark background.
 */
const BODY = "font:16px/1.5 system-ui,sans-serif;max-width:36em;margin:2em auto;padding:0 1em";
const BUTTON =
  "display:inline-block;padding:10px 18px;border-radius:8px;color:#fff;text-decoration:none";
const BRAND = "font-weight:600;font-size:18px";
const LESS = "opacity:0.8";
/** The e-mail is readable in light and dark mode, so no client has to change its colours. */
const SCHEMES = `<meta name="color-scheme" content="light dark">
<meta name="supported-color-schemes" content="light dark">
<style>:root{color-scheme:light dark;supported-color-schemes:light dark}</style>`;

/** Tell relays not to rewrite the link: SendGrid, SparkPost, Amazon SES. */
const UNTRACKED = 'clicktracking="off" data-msys-clicktrack="0" ses:no-track';

/**
 * Renders a template. Lines of the HTML are short enough to be sent without encoding.
 * @param token text of the one-time token; also shown next to the link, for manual entry
 */
export function renderEmail(
  template: TemplateName,
  variables: TemplateVariables,
  brand: MailBrand,
  token?: string,
): { subject: string; text: string; html: string } {
  const { subject, paragraphs, link } = templates[template];
  const { appUrl, appName, appAccent } = brand;
  const fill = (paragraph: string) =>
    paragraph.replace(/\{(\w+)\}/g, (_, name: string) => variables[name] ?? "");
  const greeting = variables.name === undefined ? "Hello," : `Hello ${variables.name},`;
  const signature = `This e-mail was sent by ${appName}.`;
  const text = [greeting, ...paragraphs.map(fill).filter(Boolean)];
  const html = [
    `<p style="${BRAND}">${escapeHtml(appName)}</p>`,
    ...text.map((line) => `<p>${escapeHtml(line)}</p>`),
  ];
  if (link && token) {
    const { path, label } = link;
    const href = `${appUrl}${path}#token=${token}`;
    text.push(`${label}:\n${href}`, `Or enter this token by hand:\n${token}`);
    html.push(
      `<p><a ${UNTRACKED} style="${BUTTON};background:${appAccent.light}"\nhref="${escapeHtml(href)}">${label}</a></p>`,
      `<p style="${LESS}">Or enter this token by hand:<br>\n<code style="word-break:break-all">${token}</code></p>`,
    );
  }
  const links = linksOf(brand);
  text.push([signature, ...links.map(([name, url]) => `${name}: ${url}`)].join("\n"));
  const anchors = links.map(([name, url]) => `\n<a href="${escapeHtml(url)}">${name}</a>`);
  html.push(`<p style="${LESS}">${[escapeHtml(signature), ...anchors].join(" ")}</p>`);
  return {
    subject,
    text: `${text.join("\n\n")}\n`,
    html: [
      '<!doctype html>\n<html lang="en">\n<head>',
      '<meta charset="utf-8">',
      '<meta name="viewport" content="width=device-width">',
      SCHEMES,
      `<title>${subject}</title>`,
      `</head>\n<body style="${BODY}">`,
      ...html,
      "</body>\n</html>\n",
    ].join("\n"),
  };
}

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
