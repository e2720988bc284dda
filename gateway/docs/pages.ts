import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import type { FastifyInstance } from "fastify";

/** The pages of links in e-mails where the web app is off, each one file with its script and style inside. */
const pages = {
  "/verify-email": "verify-email.html",
  "/reset-password": "reset-password.html",
};

/**
 * Adds the pages. They load no resources, are not cached, send no referrer and can't be framed. Links in e-mails carry
 * their token in the fragment, which is not sent to the server: fetching a page consumes nothing.
 */
export function addPages(app: FastifyInstance): void {
  for (const [path, file] of Object.entries(pages)) {
    const html = readFileSync(new URL(`pages/${file}`, import.meta.url), "utf8");
    const policy = contentPolicy(html);
    app.get(path, (_request, reply) => {
      reply.header("content-type", "text/html; charset=utf-8").header("content-security-policy", policy).send(html);
    });
  }
}

/** Allows the inline script and style of this text and no other (CSP level 3, hash sources). */
function contentPolicy(html: string): string {
  const hashes = (tag: string) =>
    [...html.matchAll(new RegExp(`<${tag}>(.*?)</${tag}>`, "gs"))]
      .map(
        ([, text]) =>
          `'sha256-${createHash("sha256")
            .update(text ?? "")
            .digest("base64")}'`,
      )
      .join(" ");
  return [
    "default-src 'none'",
    `script-src ${hashes("script")}`,
    `style-src ${hashes("style")}`,
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join("; ");
}
