import { createHash } from "node:crypto";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { extname, join } from "node:path";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { Config } from "../services/platform/config/config.ts";
import { nothingHere } from "./request-hooks.ts";

const APP = "../web/dist/";
const DOCS = "pages";
/**
 * Paths of the app. The first is its home page, the others are linked in e-mails; all other pages are
 * fragments.
 */
const PATHS = ["/", "/verify-email", "/reset-password"];
/**
 * The path where password managers look for the change-password form (W3C, "A Well-Known URL for
 * Changing Passwords"), and that form. The form is relative, since `PUBLIC_URL` may have a path.
 */
const CHANGE_PASSWORD = "/.well-known/change-password";
const CHANGE_PASSWORD_FORM = "../#/security";
const TYPES: Record<string, string> = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".svg": "image/svg+xml",
};
/** The page of the app on which passkeys are added and removed. */
const PASSKEY_PAGE = "/#/security";
/** The app's styles contain images as data: URLs, and the API returns QR codes as such. */
const IMAGES = "img-src 'self' data:";

const locate = (file: string) => new URL(file, import.meta.url);

/** Whether the web app has been built (by `npm ci`). */
export const isWebBuilt = existsSync(locate(`${APP}index.html`));

/**
 * Serves the built web app: its page, which clients always revalidate, and its assets, whose names
 * contain a hash. All other paths remain API paths.
 */
export function addWeb(app: FastifyInstance): void {
  const policy = contentPolicy("'self'", "'self'", IMAGES);
  const page = createFile(`${APP}index.html`, {
    "cache-control": "no-cache",
    "content-security-policy": policy,
  });
  for (const path of PATHS) app.get(path, page);
  app.get(CHANGE_PASSWORD, (_request, reply) => reply.redirect(CHANGE_PASSWORD_FORM, 303));
  const names = readdirSync(locate(`${APP}assets`)).filter((name) => !name.endsWith(".gz"));
  const cached = { "cache-control": "public, max-age=31536000, immutable" };
  const assets = new Map(names.map((name) => [name, createFile(`${APP}assets/${name}`, cached)]));
  app.get<{ Params: { name: string } }>("/assets/:name", (request, reply) => {
    const send = assets.get(request.params.name);
    if (!send) throw nothingHere();
    send(request, reply);
  });
}

/**
 * Adds the pages that e-mails link to, for when the web app is off. Each is a single file with inline
 * script and style. The pages load no resources, are not cached, send no referrer and cannot be framed.
 * Links in e-mails carry their token in the fragment, which is not sent to the server, so fetching a page
 * never consumes a token.
 */
export function addPages(app: FastifyInstance): void {
  for (const path of PATHS.slice(1)) {
    const file = `${DOCS}${path}.html`;
    const html = readFileSync(locate(file), "utf8");
    const policy = contentPolicy(hashes(html, "script"), hashes(html, "style"));
    app.get(path, createFile(file, { "content-security-policy": policy }));
  }
}

/**
 * Adds GET /.well-known/passkey-endpoints, where password managers send people (W3C, "A Well-Known URL
 * for Passkey Endpoints"), and the files that the operator has put beside it.
 */
export function addWellKnown(
  app: FastifyInstance,
  { appUrl, wellKnown, relyingParty }: Pick<Config, "appUrl" | "wellKnown" | "relyingParty">,
): void {
  const page = appUrl + PASSKEY_PAGE;
  const files = new Map(
    (wellKnown === undefined ? [] : readdirSync(wellKnown)).map((name) => [
      name,
      readFileSync(join(wellKnown as string, name)),
    ]),
  );
  if (relyingParty && !files.has(PASSKEY_ENDPOINTS))
    files.set(PASSKEY_ENDPOINTS, Buffer.from(JSON.stringify({ enroll: page, manage: page })));
  for (const [name, content] of files)
    app.get(`/.well-known/${name}`, (_request, reply) => {
      reply.header("content-type", "application/json; charset=utf-8").send(content);
    });
}

const PASSKEY_ENDPOINTS = "passkey-endpoints";

/**
 * Adds GET /openapi.json, the document written by `npm run generate`, with the URL of this deployment,
 * and GET /docs, its API reference (Scalar). Scalar's script is written by `npm ci`, read when it is
 * first requested and sent from a single buffer.
 */
export function addDocs(app: FastifyInstance, publicUrl: string): void {
  const document = JSON.parse(readFileSync(locate("../gen/openapi.json"), "utf8"));
  document.info.contact.url = publicUrl;
  document.servers = [{ url: publicUrl }];
  const text = Buffer.from(JSON.stringify(document)); // one buffer for all responses
  app.get("/openapi.json", (_request, reply) => {
    reply.header("content-type", "application/json; charset=utf-8").send(text);
  });
  const policy = contentPolicy("'self'", "'unsafe-inline'", IMAGES); // Scalar uses inline styles, but no inline scripts
  app.get("/docs", createFile(`${DOCS}/docs.html`, { "content-security-policy": policy }));
  app.get("/docs/start.js", createFile(`${DOCS}/start.js`));
  let script: Promise<Buffer> | undefined; // 1.4 MB that most processes never send
  app.get("/docs/scalar.js", async (_request, reply) => {
    script ??= readFile(locate("assets/scalar.js.gz"));
    const cached = { "content-encoding": "gzip", "cache-control": "public, max-age=3600" };
    reply.headers({ ...cached, "content-type": TYPES[".js"] });
    return reply.send(await script);
  });
}

/**
 * A handler that sends a file from memory, compressed if there is a compressed version and the client
 * accepts it.
 */
function createFile(path: string, headers: Record<string, string> = {}) {
  const plain = readFileSync(locate(path));
  const compressed = existsSync(locate(`${path}.gz`))
    ? readFileSync(locate(`${path}.gz`))
    : undefined;
  const type = TYPES[extname(path)] ?? "application/octet-stream";
  return (request: FastifyRequest, reply: FastifyReply) => {
    reply.headers(headers).header("content-type", type);
    if (!compressed) return void reply.send(plain);
    const isCompressed = /\bgzip\b(?!\s*;\s*q=0)/.test(
      String(request.headers["accept-encoding"] ?? ""),
    );
    reply.header("vary", [reply.getHeader("vary"), "accept-encoding"].filter(Boolean).join(", "));
    if (isCompressed) reply.header("content-encoding", "gzip");
    reply.send(isCompressed ? compressed : plain);
  };
}

/** The content security policy of a page that only sends requests to this origin. */
const contentPolicy = (scripts: string, styles: string, ...others: string[]) =>
  [
    "default-src 'none'",
    `script-src ${scripts}`,
    `style-src ${styles}`,
    ...others,
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join("; ");

/** Allows the inline scripts or styles of this page and no others (CSP level 3, hash sources). */
const hashes = (html: string, tag: string) =>
  [...html.matchAll(new RegExp(`<${tag}>(.*?)</${tag}>`, "gs"))]
    .map(([, text = ""]) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`)
    .join(" ");
