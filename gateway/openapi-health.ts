import { references } from "./openapi-headers.ts";
import type { Schema } from "./openapi-schemas.ts";
import { json } from "./openapi-schemas.ts";

const object = (properties: Record<string, Schema>, optional: Record<string, Schema> = {}): Schema => ({
  type: "object",
  properties: { ...properties, ...optional },
  required: Object.keys(properties),
});

const status = { type: "string", enum: ["ok", "degraded", "down"] };
const check = object({ status: { type: "string", enum: ["ok", "down"] }, latencyMs: { type: "number" } });
const checks = object({ database: check, cache: check, mail: check });
const version = { type: "string" };
const uptime = { type: "integer", description: "Seconds." };
const phase = { type: "string", enum: ["starting", "draining"], description: "Why nothing is served, if this is it." };

/** The health routes, which no proto describes. */
export const healthPaths = {
  "/health": route("getHealth", "Health of all parts", object({ status, version, uptime, checks })),
  "/health/live": route("getLiveness", "Whether the process answers", object({ status })),
  "/health/ready": route("getReadiness", "Whether requests can be served", object({ status }, { checks, phase })),
  "/health/database": route("getDatabaseHealth", "Health of the database", check),
  "/health/cache": route("getCacheHealth", "Health of the cache", check),
};

function route(operationId: string, summary: string, schema: Schema) {
  const headers = references(["X-Request-Id"]);
  const answer = (description: string) => ({ ...json(description, schema), headers });
  const responses = { 200: answer("It works."), 503: answer("It does not.") };
  return { get: { operationId, summary, tags: ["Health"], security: [], responses } };
}
