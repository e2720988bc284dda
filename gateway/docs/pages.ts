import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import type { FastifyInstance } from "fastify";

/** The pages of the gateway, each one file with its script and style inside. */
const pages = {
  "/docs": "docs.html",
  "/verify-email": "verify-email.html",
  "/reset-password": "reset-password.html",
};

/**
 * Adds the pages: they load nothing, are kept nowhere, leak no address and can't be framed. Links in e-mails carry their
 * token in the fragment, which no server sees, so that fetching a page consumes nothing.
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

/** Allows the inline script and style of this very text and nothing else (CSP level 3, hash sources). */
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
