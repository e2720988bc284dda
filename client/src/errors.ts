import type { ErrorBody, ErrorCode, Violation } from "./api.ts";

/**
 * Error codes that do not come from the service: no response, a response from something else, an
 * error event in a stream.
 */
export type ClientErrorCode = "NETWORK_ERROR" | "UNEXPECTED_RESPONSE" | "STREAM_ERROR";

type Details = {
  status?: number;
  violations?: Violation[];
  retryAfter?: number | undefined;
  requestId?: string | null;
  streamCode?: ErrorCode | undefined;
};

/** Every error of the client, except for aborts, which throw the reason of the signal. */
export class GatehouseError extends Error {
  override readonly name = "GatehouseError";
  /** What happened. Switch on this value. */
  readonly code: ErrorCode | ClientErrorCode;
  /** The HTTP status; 0 without a response. */
  readonly status: number;
  /** Every invalid field of the request, by its JSON path. */
  readonly violations: readonly Violation[];
  /** Number of seconds after which a retry may succeed. */
  readonly retryAfter: number | undefined;
  /** Id of the request in the service's log. */
  readonly requestId: string | undefined;
  /**
   * For `STREAM_ERROR`: the code that the service sent along with its message. Undefined for other
   * errors, and if the service sent no code.
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
 * Creates the error for a response. A response without the service's error body comes from a proxy
 * or another server.
 */
export async function errorOf(response: Response): Promise<GatehouseError> {
  const { status, headers } = response;
  const json: Partial<ErrorBody> & { error?: FormatError } =
    (await response.json().catch(() => undefined)) ?? {};
  const body: Partial<ErrorBody> = json.error?.code ? bodyOfFormat(json.error) : json;
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

/** An error of OpenAI's format. */
type FormatError = { message: string; code: string; param?: string | null };

/** The codes of `/v1` that are not spelled like ours. */
const FORMAT_CODES: Record<string, ErrorCode> = {
  invalid_api_key: "UNAUTHENTICATED",
  permission_denied: "FORBIDDEN",
  model_not_found: "NOT_FOUND",
  unknown_url: "NOT_FOUND",
  rate_limit_exceeded: "RATE_LIMITED",
  invalid_value: "VALIDATION_FAILED",
  unsupported_value: "VALIDATION_FAILED",
  unsupported_parameter: "VALIDATION_FAILED",
  context_length_exceeded: "PROVIDER_ERROR",
  content_filter: "PROVIDER_ERROR",
};

/** The code of the API for one of OpenAI's format. */
export function codeOfFormat(code: string, message: string): ErrorCode {
  if (code === "model_not_found" && / is not configured: /.test(message))
    return "PROVIDER_NOT_CONFIGURED";
  if (code.startsWith("provider_")) return "PROVIDER_ERROR";
  return FORMAT_CODES[code] ?? (code.toUpperCase() as ErrorCode);
}

function bodyOfFormat({ message, code, param }: FormatError): Partial<ErrorBody> {
  const own = codeOfFormat(code, message);
  const isField = own === "VALIDATION_FAILED" && param;
  return { code: own, message, ...(isField && { violations: [{ field: param, message }] }) };
}

/**
 * Creates the error for a failed connection. If the caller has aborted, it is the reason of the
 * abort.
 */
export function connectionError(thrown: unknown, signal: AbortSignal | undefined): unknown {
  if (signal?.aborted) return signal.reason;
  return new GatehouseError("NETWORK_ERROR", "The server could not be reached.", {}, thrown);
}

/**
 * Reads the body of a successful response.
 * @throws GatehouseError `UNEXPECTED_RESPONSE` if it is not JSON
 */
export async function jsonOf<T>(response: Response, signal?: AbortSignal): Promise<T> {
  return (await response.json().catch((thrown) => {
    throw thrown instanceof SyntaxError
      ? unexpected(response, thrown)
      : connectionError(thrown, signal);
  })) as T;
}

/** Reads the body of a successful response that is text. */
export const plainTextOf = (response: Response, signal?: AbortSignal): Promise<string> =>
  response.text().catch((thrown) => {
    throw connectionError(thrown, signal);
  });

/** The error for a response that does not come from the service, such as a proxy's error page. */
export function unexpected({ status }: Response, cause?: unknown): GatehouseError {
  return new GatehouseError(
    "UNEXPECTED_RESPONSE",
    "The server returned something unexpected.",
    { status },
    cause,
  );
}
