import { ProviderFailure, Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import type { HttpErrorResponse } from "../transcode/http-error.ts";

/** Statuses below 500 after which the same request may succeed. */
const PASSING = [408, 429];
/** Until a budget is reset, in seconds. Clients that repeat a request do not wait longer. */
const LONGEST_WAIT_SECONDS = 5;

/**
 * The header that keeps the clients of OpenAI and Anthropic from repeating a request in vain. Without it they
 * repeat requests that fail with 408, 409, 429 or 5xx.
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
