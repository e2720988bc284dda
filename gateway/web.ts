import { existsSync, readdirSync, readFileSync } from "node:fs";
import { extname } from "node:path";
import { fileURLToPath } from "node:url";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { nothingHere } from "./hooks/request-hooks.ts";

const FOLDER = fileURLToPath(new URL("../web/dist/", import.meta.url));
/** The paths of the app. The first one is its home, the others are links in e-mails; all further ones are fragments. */
const PATHS = ["/", "/verify-email", "/reset-password"];
const TYPES: Record<string, string> = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".svg": "image/svg+xml",
};
/** The styles of the app contain images as data: URLs, and so do the QR codes of the API. */
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join("; ");

/** Whether the web app has been built (`npm ci`). */
export const isWebBuilt = existsSync(`${FOLDER}index.html`);

/**
 * Serves the built web app: its page, which is always validated, and its assets, whose names contain their hash.
 * Any other path stays a path of the API.
 */
export function addWeb(app: FastifyInstance): void {
  const page = createFile("index.html", { "cache-control": "no-cache", "content-security-policy": POLICY });
  for (const path of PATHS) app.get(path, page);
  const names = readdirSync(`${FOLDER}assets`).filter((name) => !name.endsWith(".gz"));
  const cached = { "cache-control": "public, max-age=31536000, immutable" };
  const assets = new Map(names.map((name) => [name, createFile(`assets/${name}`, cached)]));
  app.get<{ Params: { name: string } }>("/assets/:name", (request, reply) => {
    const send = assets.get(request.params.name);
    if (!send) throw nothingHere();
    send(request, reply);
  });
}

/** A handler that sends a file of the build from memory, compressed where the client takes it. */
function createFile(
  path: string,
  headers: Record<string, string>,
): (request: FastifyRequest, reply: FastifyReply) => void {
  const plain = readFileSync(FOLDER + path);
  const compressed = readFileSync(`${FOLDER + path}.gz`);
  const type = TYPES[extname(path)] ?? "application/octet-stream";
  return (request: FastifyRequest, reply: FastifyReply) => {
    const isCompressed = /\bgzip\b(?!;q=0)/.test(String(request.headers["accept-encoding"] ?? ""));
    const vary = [reply.getHeader("vary"), "accept-encoding"].filter(Boolean).join(", ");
    reply.headers(headers).header("content-type", type).header("vary", vary);
    if (isCompressed) reply.header("content-encoding", "gzip");
    reply.send(isCompressed ? compressed : plain);
  };
}
