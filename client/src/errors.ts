import type { ErrorBody, ErrorCode, Violation } from "./api.ts";

/**
 * What can go wrong without an error of the service: no response, a response of something else, an
 * event of a stream.
 */
export type ClientErrorCode = "NETWORK_ERROR" | "UNEXPECTED_RESPONSE" | "STREAM_ERROR";

type Details = {
  status?: number;
  violations?: Violation[];
  retryAfter?: number | undefined;
  requestId?: string | null;
  streamCode?: ErrorCode | undefined;
};

/** Every error of the client, except an abort: that is the reason of its signal. */
export class GatehouseError extends Error {
  override readonly name = "GatehouseError";
  /** What happened. Switch on it. */
  readonly code: ErrorCode | ClientErrorCode;
  /** The HTTP status; 0 without a response. */
  readonly status: number;
  /** Every invalid field of the request by its JSON path. */
  readonly violations: readonly Violation[];
  /** Seconds after which a retry may succeed. */
  readonly retryAfter: number | undefined;
  /** The id of the request in the service's log. */
  readonly requestId: string | undefined;
  /**
   * What ended a stream, for `STREAM_ERROR`: the code that the service names beside its message.
   * Undefined for other errors, and for a service that names none.
   */
  readonly streamCode: ErrorCode | undefined;

  constructor(
    code: ErrorCode | ClientErrorCode,
    message: string,
    details: Details = {},
    cause?: unknown,
  ) {
    super(message, cause === undefined ? undefined : { cause });
    this.code = code;
    this.status = details.status ?? 0;
    this.violations = details.violations ?? [];
    this.retryAfter = details.retryAfter;
    this.requestId = details.requestId ?? undefined;
    this.streamCode = details.streamCode;
  }
}

/**
 * The error of a response. A response without the service's error shape comes from a proxy or
 * another server.
 */
export async function errorOf(response: Response): Promise<GatehouseError> {
  const { status, headers } = response;
  const body: Partial<ErrorBody> = (await response.json().catch(() => undefined)) ?? {};
  const seconds = Number(headers.get("retry-after") ?? Number.NaN);
  return new GatehouseError(
    body.code ?? "UNEXPECTED_RESPONSE",
    body.message ?? `The server returned ${status}.`,
    {
      status,
      violations: body.violations ?? [],
      retryAfter: Number.isFinite(seconds) ? seconds : undefined,
      requestId: headers.get("x-request-id"),
    },
  );
}

/** The error of a connection: an abort by the caller keeps its reason. */
export function connectionError(thrown: unknown, signal: AbortSignal | undefined): unknown {
  if (signal?.aborted) return signal.reason;
  return new GatehouseError("NETWORK_ERROR", "The server could not be reached.", {}, thrown);
}

/**
 * The body of a successful response.
 * @throws GatehouseError `UNEXPECTED_RESPONSE` for anything but JSON
 */
export async function jsonOf<T>(response: Response, signal?: AbortSignal): Promise<T> {
  return (await response.json().catch((thrown) => {
    throw thrown instanceof SyntaxError
      ? unexpected(response, thrown)
      : connectionError(thrown, signal);
  })) as T;
}

/** The error of a response that is no answer of the service, such as the page of a proxy. */
export function unexpected({ status }: Response, cause?: unknown): GatehouseError {
  return new GatehouseError(
    "UNEXPECTED_RESPONSE",
    "The server returned something unexpected.",
    { status },
    cause,
  );
}
