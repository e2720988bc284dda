/**
 * Writes the script of Scalar's API reference to `gateway/assets/scalar.js.gz`, which the
 * gateway serves at /docs. The package holds the script inside its Fastify plugin, so a server
 * without a port returns it. Run by `npm ci`.
 */
import { mkdirSync, writeFileSync } from "node:fs";
import { gzipSync } from "node:zlib";
import apiReference from "@scalar/fastify-api-reference";
import { fastify } from "fastify";

const app = fastify();
app.register(apiReference, { routePrefix: "/docs", configuration: { url: "/openapi.json" } });
const { statusCode, rawPayload } = await app.inject("/docs/js/scalar.js");
if (statusCode !== 200) throw new Error(`@scalar/fastify-api-reference returned ${statusCode}`);
const folder = new URL("../../gateway/assets/", import.meta.url);
mkdirSync(folder, { recursive: true });
writeFileSync(new URL("scalar.js.gz", folder), gzipSync(rawPayload, { level: 9 }));
