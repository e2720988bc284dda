import { CookieClearing } from "../../gen/gatehouse/platform/v1/policy_pb.ts";
import type { HttpBinding } from "../transcode/binding.ts";

const header = (type: "string" | "integer", description: string) => ({ description, schema: { type } });

/** The headers of answers that programs read, by name. */
export const headers = {
  "X-Request-Id": header("string", "The request's own id, or the one that it came with; the log has it too."),
  "RateLimit-Limit": header("integer", "Requests in a window."),
  "RateLimit-Remaining": header("integer", "Requests that are left in this window."),
  "RateLimit-Reset": header("integer", "Seconds until the window ends."),
  "Retry-After": header("integer", "Seconds until another try makes sense."),
  "WWW-Authenticate": header("string", "Always `Bearer`."),
  "Set-Cookie": header("string", "The refresh token, or its end."),
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
