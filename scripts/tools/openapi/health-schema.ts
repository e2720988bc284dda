import { Reason } from "../../../gen/gatehouse/platform/v1/failure_pb.ts";
import type { Schema } from "./components.ts";
import { json, property } from "./components.ts";
import { references, responsesOf } from "./responses.ts";

const object = (
  properties: Record<string, Schema>,
  optional: Record<string, Schema> = {},
): Schema => ({
  type: "object",
  properties: { ...properties, ...optional },
  required: Object.keys(properties),
});

const STATUS =
  "`ok`: ready. `degraded`: ready without the cache or the mail server, or while the clocks differ. `down`: not ready.";
const statusOf = (...values: string[]) =>
  property("status", { type: "string", enum: values }, STATUS);
const check = (description: string) => ({
  ...object({
    status: statusOf("ok", "down"),
    latencyMs: property("latencyMs", { type: "number" }, "Duration of the check in milliseconds."),
  }),
  description,
});
const [database, cache] = [check("The database."), check("The cache.")];
const clock = check(
  "Present while the clocks of the process and the database differ. Nothing is deleted during that time.",
);
const checks = {
  ...object({ database, cache, mail: check("The mail server.") }, { clock }),
  description: "The dependencies.",
};
const version = property("version", { type: "string" }, "Version of the service.");
const uptime = property("uptime", { type: "integer" }, "Seconds since the start of the process.");
const phase = property(
  "phase",
  { type: "string", enum: ["starting", "draining"] },
  "Present while the process starts or shuts down.",
);
const status = statusOf("ok", "degraded", "down");
const ready = object({ status }, { checks, phase });
const alive = object({ status: statusOf("ok") });

/**
 * The health routes, which no proto describes.
 * @param other the response of any other status
 */
export const healthPaths = (other: object) => ({
  "/health": route(
    other,
    "getHealth",
    "Health",
    "Health of the service and its dependencies.",
    object({ status, version, uptime, checks }),
  ),
  "/health/live": route(
    other,
    "getLiveness",
    "Liveness",
    "Returns 200 while the process responds.",
    alive,
    [200],
  ),
  "/health/ready": route(
    other,
    "getReadiness",
    "Readiness",
    "Returns 200 when requests can be served.",
    ready,
  ),
  "/health/database": route(
    other,
    "getDatabaseHealth",
    "Database Health",
    "Health of the database.",
    database,
  ),
  "/health/cache": route(other, "getCacheHealth", "Cache Health", "Health of the cache.", cache),
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
  const answers = statuses.map((status) => [
    status,
    { ...json(meanings[status], schema), headers },
  ]);
  const malformed = responsesOf([Reason.MALFORMED_REQUEST]).map(([code, answer]) => [
    code,
    { ...answer, headers },
  ]);
  const responses = { ...Object.fromEntries([...answers, ...malformed]), default: other };
  return { get: { operationId, summary, description, tags: ["Health"], security: [], responses } };
}
