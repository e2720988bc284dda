import { references } from "./headers.ts";
import type { Schema } from "./schemas.ts";
import { json } from "./schemas.ts";

const object = (properties: Record<string, Schema>, optional: Record<string, Schema> = {}): Schema => ({
  type: "object",
  properties: { ...properties, ...optional },
  required: Object.keys(properties),
});

const status = { type: "string", enum: ["ok", "degraded", "down"] };
const check = object({
  status: { type: "string", enum: ["ok", "down"] },
  latencyMs: { type: "number", description: "How long it took to answer." },
});
const checks = object({ database: check, cache: check, mail: check });
const version = { type: "string" };
const uptime = { type: "integer", description: "Seconds." };
const phase = { type: "string", enum: ["starting", "draining"], description: "Why nothing is served, if this is it." };
const ready = object({ status }, { checks, phase });
const alive = object({ status: { type: "string", enum: ["ok"] } });

/** The health routes, which no proto describes. @param other the answer of any other status */
export const healthPaths = (other: object) => ({
  "/health": route(other, "getHealth", "Health", "Health of all parts.", object({ status, version, uptime, checks })),
  "/health/live": route(other, "getLiveness", "Liveness", "Answers as long as the process does.", alive, [200]),
  "/health/ready": route(other, "getReadiness", "Readiness", "Whether requests can be served.", ready),
  "/health/database": route(other, "getDatabaseHealth", "Database Health", "Health of the database.", check),
  "/health/cache": route(other, "getCacheHealth", "Cache Health", "Health of the cache.", check),
});

const meanings = { 200: "It works.", 503: "It does not." };

function route(
  other: object,
  operationId: string,
  summary: string,
  description: string,
  schema: Schema,
  statuses: (keyof typeof meanings)[] = [200, 503],
) {
  const headers = references(["X-Request-Id"]);
  const answers = statuses.map((status) => [status, { ...json(meanings[status], schema), headers }]);
  const responses = { ...Object.fromEntries(answers), default: other };
  return { get: { operationId, summary, description, tags: ["Health"], security: [], responses } };
}
