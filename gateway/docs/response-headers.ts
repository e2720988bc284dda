import { CookieClearing } from "../../gen/gatehouse/platform/v1/policy_pb.ts";
import type { HttpBinding } from "../transcode/binding.ts";

const header = (example: string | number, description: string) => ({
  description,
  schema: { type: typeof example === "string" ? "string" : "integer", examples: [example] },
});

/** The response headers that programs read, by name. */
export const headers = {
  "X-Request-Id": header(
    "7c9e6679-7425-40de-944b-e07fc1f90ae7",
    "Id of the request, as in the log: the id that the client sent, or a new one.",
  ),
  "RateLimit-Limit": header(100, "Maximum number of requests per window."),
  "RateLimit-Remaining": header(99, "Requests left in the current window."),
  "RateLimit-Reset": header(60, "Seconds until the current window ends."),
  "Retry-After": header(60, "Seconds to wait before a retry."),
  "X-AI-Ignored": header("temperature", "Given fields that the AI model takes no notice of, such as `temperature`."),
  "WWW-Authenticate": header("Bearer", "Always `Bearer`."),
  "Set-Cookie": header(
    "refreshToken=eyJhbGciOiJFZERTQSJ9.e30.c2ln; Path=/auth; HttpOnly; SameSite=Strict",
    "Sets or clears the refresh token.",
  ),
};

const LIMIT = ["RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"];
/** Statuses of errors after which a retry helps. */
const PASSING = [423, 429, 503];

/** References to the headers that a response of this status may have. */
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
    ...(isSuccess ? policy.responseHeaders : []),
  ]);
}

/** References to the headers of a response without a documented status. */
export const headersOfOther = (isLimited: boolean) =>
  references(["X-Request-Id", ...(isLimited ? LIMIT : []), "Retry-After"]);

/** References to headers by their names. */
export const references = (names: readonly string[]) =>
  Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }]));
