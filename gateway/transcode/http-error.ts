import type { ProviderFailure, Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import type { Violation } from "../../services/platform/rpc/errors.ts";

/** The body of every error response. */
export type ErrorBody = {
  statusCode: number;
  message: string;
  error: string;
  code: string;
  violations?: Violation[];
};

/** An error as an HTTP response. */
export type HttpErrorResponse = {
  reason: Reason;
  body: ErrorBody;
  retryAfterSeconds: number | undefined;
  /** What went wrong at the AI provider, if the error concerns one. */
  providerFailure: ProviderFailure;
  /** Whether the error is unexpected and has not been logged yet. */
  isInternal: boolean;
};
