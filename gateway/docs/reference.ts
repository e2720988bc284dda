import { createReadStream, readFileSync } from "node:fs";
import type { FastifyInstance } from "fastify";

/** Scripts and requests of this origin only. Scalar sets inline styles, but no inline script. */
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'unsafe-inline'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join("; ");
const CACHED = "public, max-age=3600";
const JAVASCRIPT = "text/javascript; charset=utf-8";

const read = (path: string) => readFileSync(new URL(path, import.meta.url));

/** Adds GET /docs: Scalar's API reference of /openapi.json. `npm ci` writes its script, which stays on disk until it is requested. */
export function addReference(app: FastifyInstance): void {
  const [html, start] = [read("pages/docs.html"), read("pages/start.js")];
  app.get("/docs", (_request, reply) => {
    reply.header("content-type", "text/html; charset=utf-8").header("content-security-policy", POLICY).send(html);
  });
  app.get("/docs/start.js", (_request, reply) => {
    reply.header("content-type", JAVASCRIPT).send(start);
  });
  app.get("/docs/scalar.js", (_request, reply) => {
    reply.header("content-type", JAVASCRIPT).header("content-encoding", "gzip").header("cache-control", CACHED);
    return reply.send(createReadStream(new URL("assets/scalar.js.gz", import.meta.url)));
  });
}
