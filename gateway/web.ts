import { createHash } from "node:crypto";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { extname } from "node:path";
import { gzipSync } from "node:zlib";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { Config } from "../services/platform/config/config.ts";
import { readWellKnown } from "../services/platform/process/well-known-files.ts";
import type { Brand } from "./app-config.ts";
import { nothingHere } from "./request-hooks.ts";

const APP = "../web/dist/";
const DOCS = "pages";
/** The paths of links in e-mails that carry a token. */
const MAILED = ["/verify-email", "/reset-password", "/not-me", "/email-code"];
/** The path of the link in e-mails about the security of an account. */
const FORGOTTEN = "/forgot-password";
const TYPES: Record<string, string> = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".svg": "image/svg+xml",
  ".woff2": "font/woff2",
};
/** The page of the app on which passwords are changed, and passkeys added and removed. */
const SECURITY_PAGE = "/account/security";
/** The app's styles contain images as data: URLs, and the API returns QR codes as such. */
const IMAGES = "img-src 'self' data:";
const FONTS = "font-src 'self'";

/** Sends a response. */
type Send = (request: FastifyRequest, reply: FastifyReply) => void;

const locate = (file: string) => new URL(file, import.meta.url);

/** Whether the web app has been built (by `npm ci`). */
const isWebBuilt = existsSync(locate(`${APP}index.html`));

/** Whether the gateway serves the web app, and not only the pages that e-mails link to. */
export const servesWeb = ({ web }: Pick<Config, "web">): boolean => web && isWebBuilt;

/**
 * Serves the built web app: its page, which is always validated, and its assets, whose names
 * contain their hash.
 * @returns a function that sends the page, for navigations to places of the app, whose paths have
 * no route
 */
export function addWeb(app: FastifyInstance, brand: Brand, publicUrl: string): Send {
  const page = sendsText(
    readFileSync(locate(`${APP}index.html`), "utf8")
      .replace(/<base href="[^"]*">/, `<base href="${escapeHtml(basePathOf(publicUrl))}">`)
      .replace(/<title>.*<\/title>/, `<title>${escapeHtml(brand.appName)}</title>`),
    {
      "cache-control": "no-cache",
      "content-security-policy": contentPolicy("'self'", "'self'", "'self'", IMAGES, FONTS),
    },
  );
  for (const path of ["/", ...MAILED]) app.get(path, page);
  const names = readdirSync(locate(`${APP}assets`)).filter((name) => !name.endsWith(".gz"));
  const cached = { "cache-control": "public, max-age=31536000, immutable" };
  const assets = new Map(names.map((name) => [name, createFile(`${APP}assets/${name}`, cached)]));
  app.get<{ Params: { name: string } }>("/assets/:name", (request, reply) => {
    const send = assets.get(request.params.name);
    if (!send) throw nothingHere();
    send(request, reply);
  });
  return page;
}

/** The path prefix that the proxy strips, with a trailing slash. */
const basePathOf = (publicUrl: string) => `${new URL(publicUrl).pathname.replace(/\/$/, "")}/`;

/**
 * Adds the pages that e-mails link to, used when the web app is off. Each page is a single file
 * with inline script and style. The pages load no resources, are not cached, send no referrer and
 * cannot be framed. Links in e-mails carry their token in the fragment, which is not sent to the
 * server, so fetching a page never consumes a token.
 */
export function addPages(app: FastifyInstance, brand: Brand): void {
  const { light, dark } = brand.appAccent;
  const shades = `:root { --accent-light: ${light}; --accent-dark: ${dark}; }`;
  const style = `${shades}\n${readFileSync(locate(`${DOCS}/page.css`), "utf8").trim()}`;
  const values = { style, name: escapeHtml(brand.appName), links: linksOf(brand) };
  for (const path of [...MAILED, FORGOTTEN]) {
    const html = fill(readFileSync(locate(`${DOCS}${path}.html`), "utf8"), values);
    const policy = contentPolicy(hashes(html, "script"), hashes(html, "style"), "'none'");
    app.get(path, sendsText(html, { "content-security-policy": policy }));
  }
}

/** Replaces `{name}` with the value of that name. */
const fill = (html: string, values: Record<string, string>) =>
  html.replace(/\{(name|style|links)\}/g, (_, name: string) => values[name] ?? "");

const linksOf = ({ termsUrl, privacyUrl, supportUrl }: Brand) =>
  Object.entries({ Terms: termsUrl, Privacy: privacyUrl, Support: supportUrl })
    .flatMap(([text, url]) => (url ? [`<a href="${escapeHtml(url)}">${text}</a>`] : []))
    .join(" ");

const escapeHtml = (text: string) =>
  text.replace(/[&<>"]/g, (character) => `&#${character.charCodeAt(0)};`);

/**
 * Adds where password managers send people: GET /.well-known/passkey-endpoints to where passkeys
 * are managed (W3C, "A Well-Known URL for Passkey Endpoints"), and GET /.well-known/change-password
 * to where a password is set (W3C, "A Well-Known URL for Changing Passwords"). Also adds the files
 * in the directory `WELL_KNOWN`.
 */
export function addWellKnown(app: FastifyInstance, config: Config): void {
  const { appUrl, wellKnown, relyingParty } = config;
  const page = appUrl + SECURITY_PAGE;
  const files = new Map(readWellKnown(wellKnown));
  if (relyingParty && !files.has(PASSKEY_ENDPOINTS))
    files.set(PASSKEY_ENDPOINTS, Buffer.from(JSON.stringify({ enroll: page, manage: page })));
  for (const [name, content] of files)
    app.get(`/.well-known/${name}`, (_request, reply) => {
      reply.header("content-type", "application/json; charset=utf-8").send(content);
    });
  const form = passwordFormOf(config);
  app.get("/.well-known/change-password", (_request, reply) => reply.redirect(form, 303));
}

/**
 * The URL of the page where a password is set: in the web app, in the front end that there is
 * instead, or else the gateway's own page that mails a link. Those of the gateway are relative,
 * since `PUBLIC_URL` may have a path.
 */
function passwordFormOf(config: Pick<Config, "web" | "appUrl" | "publicUrl">): string {
  if (servesWeb(config)) return `..${SECURITY_PAGE}`;
  return config.appUrl === config.publicUrl ? `..${FORGOTTEN}` : config.appUrl + SECURITY_PAGE;
}

const PASSKEY_ENDPOINTS = "passkey-endpoints";

/**
 * Adds GET /openapi.json, the document written by `npm run generate`, with the URL of this
 * deployment, and GET /docs, its API reference (Scalar), whose script is written by `npm ci`. Both
 * are read when they are first requested, and sent from a single buffer each.
 */
export function addDocs(app: FastifyInstance, { appName }: Brand, publicUrl: string): void {
  const write = () => {
    const document = JSON.parse(readFileSync(locate("../gen/openapi.json"), "utf8"));
    document.info.title = appName;
    document.info.contact.url = publicUrl;
    document.servers = [{ url: publicUrl }];
    return Buffer.from(JSON.stringify(document));
  };
  let text: Buffer | undefined; // 1 MB that most processes never send, in one buffer for all responses
  app.get("/openapi.json", (_request, reply) => {
    text ??= write();
    reply.header("content-type", "application/json; charset=utf-8").send(text);
  });
  const policy = contentPolicy("'self'", "'unsafe-inline'", "'none'", IMAGES); // Scalar sets inline styles, but no inline script
  const page = fill(readFileSync(locate(`${DOCS}/docs.html`), "utf8"), {
    name: escapeHtml(appName),
  });
  app.get("/docs", sendsText(page, { "content-security-policy": policy }));
  app.get("/docs/start.js", createFile(`${DOCS}/start.js`));
  let script: Promise<Buffer> | undefined; // 1.4 MB that most processes never send
  app.get("/docs/scalar.js", async (_request, reply) => {
    script ??= readFile(locate("assets/scalar.js.gz"));
    const cached = { "content-encoding": "gzip", "cache-control": "public, max-age=3600" };
    reply.headers({ ...cached, "content-type": TYPES[".js"] });
    return reply.send(await script);
  });
}

/** A handler that sends a file from memory. */
function createFile(path: string, headers: Record<string, string> = {}): Send {
  const isCompressed = existsSync(locate(`${path}.gz`));
  return sends(
    readFileSync(locate(path)),
    isCompressed ? readFileSync(locate(`${path}.gz`)) : undefined,
    {
      ...headers,
      "content-type": TYPES[extname(path)] ?? "application/octet-stream",
    },
  );
}

/** A handler that sends a page from memory. */
function sendsText(html: string, headers: Record<string, string>): Send {
  const plain = Buffer.from(html);
  return sends(plain, gzipSync(plain), { ...headers, "content-type": TYPES[".html"] as string });
}

/** A handler that sends content, compressed if the client accepts that. */
function sends(
  plain: Buffer,
  compressed: Buffer | undefined,
  headers: Record<string, string>,
): Send {
  return (request, reply) => {
    reply.headers(headers);
    if (!compressed) return void reply.send(plain);
    const isCompressed = /\bgzip\b(?!\s*;\s*q=0)/.test(
      String(request.headers["accept-encoding"] ?? ""),
    );
    reply.header("vary", [reply.getHeader("vary"), "accept-encoding"].filter(Boolean).join(", "));
    if (isCompressed) reply.header("content-encoding", "gzip");
    reply.send(isCompressed ? compressed : plain);
  };
}

/** The content security policy of a page that sends requests to this origin only. */
const contentPolicy = (scripts: string, styles: string, base: string, ...others: string[]) =>
  [
    "default-src 'none'",
    `script-src ${scripts}`,
    `style-src ${styles}`,
    ...others,
    "connect-src 'self'",
    `base-uri ${base}`,
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join("; ");

/** Allows the inline scripts or styles of this page and no others (CSP level 3, hash sources). */
const hashes = (html: string, tag: string) =>
  [...html.matchAll(new RegExp(`<${tag}>(.*?)</${tag}>`, "gs"))]
    .map(([, text = ""]) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`)
    .join(" ");
