import { ProviderFailure, Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import type { HttpErrorResponse } from "../transcode/http-error.ts";

/** Statuses below 500 after which the same request may succeed. */
const PASSING = [408, 429];
/**
 * Maximum time until the reset of a budget for which a retry makes sense, in seconds. Clients do
 * not wait longer.
 */
const LONGEST_WAIT_SECONDS = 5;

/**
 * The header that prevents pointless retries by the clients of OpenAI and Anthropic, which
 * otherwise retry after 408, 409, 429 and 5xx.
 */
export function retryAdvice(
  { reason, retryAfterSeconds = Number.POSITIVE_INFINITY, providerFailure }: HttpErrorResponse,
  status: number,
): Record<string, string> {
  const isSpent = reason === Reason.BUDGET_EXCEEDED && retryAfterSeconds > LONGEST_WAIT_SECONDS;
  const isRefused = providerFailure === ProviderFailure.ACCOUNT_REFUSED;
  const isFinal =
    isSpent || isRefused || (status < 500 && !PASSING.includes(status)) || status === 501;
  return isFinal ? { "x-should-retry": "false" } : {};
}
