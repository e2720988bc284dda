import type { Config } from "../platform/config.ts";
import texts from "./templates.json" with { type: "json" };

/** Names of the e-mails we send; the e-mail log shows them. */
export type TemplateName = keyof typeof texts;

/** A template: its texts, and the page of the front end that receives its token. */
type Template = { subject: string; paragraphs: string[]; link?: { path: string; label: string } };
const templates: Record<TemplateName, Template> = texts;

/**
 * What fills the `{placeholders}` of a template, and `name`, which greets: others may use an
 * address before it is verified.
 */
type TemplateVariables = Record<string, string | undefined>;

/**
 * Formats a duration, such as "24 hours".
 * @param lifetimeMs in ms
 */
export function formatDuration(lifetimeMs: number): string {
  const minutes = Math.max(1, Math.round(lifetimeMs / 60_000));
  const [count, unit] = minutes % 60 === 0 ? [minutes / 60, "hour"] : [minutes, "minute"];
  return `${count} ${unit}${count === 1 ? "" : "s"}`;
}

/**
 * Renders a template.
 * @param token text of the one-time token; shown beside the link too, for manual entry.
 */
export function renderEmail(
  template: TemplateName,
  variables: TemplateVariables,
  { appUrl, appName }: Pick<Config, "appUrl" | "appName">,
  token?: string,
): { subject: string; text: string; html: string } {
  const { subject, paragraphs, link } = templates[template];
  const fill = (paragraph: string) =>
    paragraph.replace(/\{(\w+)\}/g, (_, name: string) => variables[name] ?? "");
  const greeting = variables.name === undefined ? "Hello," : `Hello ${variables.name},`;
  const signature = `This e-mail was sent by ${appName}.`;
  const text = [greeting, ...paragraphs.map(fill)];
  const html = text.map((line) => `<p>${escapeHtml(line)}</p>`);
  if (link && token) {
    const { path, label } = link;
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

const entities: Record<string, string> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
};

function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => entities[character] ?? character);
}
