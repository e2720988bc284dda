import { CookieClearing } from "../../gen/gatehouse/platform/v1/policy_pb.ts";
import type { HttpBinding } from "../transcode/binding.ts";

const header = (type: "string" | "integer", description: string) => ({ description, schema: { type } });

/** The headers of answers that programs read, by name. */
export const headers = {
  "X-Request-Id": header("string", "Id of the request, as in the log: the id that the client sent, or a new one."),
  "RateLimit-Limit": header("integer", "Maximum number of requests per window."),
  "RateLimit-Remaining": header("integer", "Requests left in the current window."),
  "RateLimit-Reset": header("integer", "Seconds until the current window ends."),
  "Retry-After": header("integer", "Seconds to wait before a retry."),
  "WWW-Authenticate": header("string", "Always `Bearer`."),
  "Set-Cookie": header("string", "Sets or clears the refresh token."),
};

const LIMIT = ["RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"];
/** Statuses of failures that pass. */
const PASSING = [423, 429, 503];

/** References to the headers that an answer of this status may have. */
export function headersOf({ policy, responseCookies, successStatus }: HttpBinding, status: number, isLimited: boolean) {
  const isSuccess = status === successStatus;
  const clears = policy.clearsCookie === (isSuccess ? CookieClearing.ON_SUCCESS : CookieClearing.ON_UNAUTHENTICATED);
  const touchesCookie = (clears && (isSuccess || status === 401)) || (isSuccess && responseCookies.length > 0);
  return references([
    "X-Request-Id",
    ...(isLimited ? LIMIT : []),
    ...(PASSING.includes(status) ? ["Retry-After"] : []),
    ...(status === 401 ? ["WWW-Authenticate"] : []),
    ...(touchesCookie ? ["Set-Cookie"] : []),
  ]);
}

/** References to the headers of an answer that no status is named for. */
export const headersOfOther = (isLimited: boolean) =>
  references(["X-Request-Id", ...(isLimited ? LIMIT : []), "Retry-After"]);

/** References to headers by their names. */
export const references = (names: readonly string[]) =>
  Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }]));
