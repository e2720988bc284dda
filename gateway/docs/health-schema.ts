import type { Schema } from "./components.ts";
import { json, references } from "./components.ts";

const object = (properties: Record<string, Schema>, optional: Record<string, Schema> = {}): Schema => ({
  type: "object",
  properties: { ...properties, ...optional },
  required: Object.keys(properties),
});

const status = { type: "string", enum: ["ok", "degraded", "down"] };
const check = object({
  status: { type: "string", enum: ["ok", "down"] },
  latencyMs: { type: "number", description: "Duration of the check in milliseconds." },
});
const checks = object({ database: check, cache: check, mail: check });
const version = { type: "string" };
const uptime = { type: "integer", description: "Seconds since the start of the process." };
const phase = {
  type: "string",
  enum: ["starting", "draining"],
  description: "Present while the process starts or shuts down.",
};
const ready = object({ status }, { checks, phase });
const alive = object({ status: { type: "string", enum: ["ok"] } });

/** The health routes, which no proto describes. @param other the response of any other status */
export const healthPaths = (other: object) => ({
  "/health": route(
    other,
    "getHealth",
    "Health",
    "Health of the service and its dependencies.",
    object({ status, version, uptime, checks }),
  ),
  "/health/live": route(other, "getLiveness", "Liveness", "Returns 200 while the process responds.", alive, [200]),
  "/health/ready": route(other, "getReadiness", "Readiness", "Returns 200 when requests can be served.", ready),
  "/health/database": route(other, "getDatabaseHealth", "Database Health", "Health of the database.", check),
  "/health/cache": route(other, "getCacheHealth", "Cache Health", "Health of the cache.", check),
});

const meanings = { 200: "Healthy.", 503: "Unhealthy." };

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
