import { STATUS_CODES } from "node:http";

/** How a provider failed. These words are part of messages to clients. */
export type ProviderErrorKind =
  | "rate limited"
  | "quota exhausted"
  | "overloaded"
  | "internal error"
  | "refused the key"
  | "rejected the request"
  | "blocked the content"
  | "timed out"
  | "unreachable"
  | "unreadable reply"
  | "reply too large"
  | "broke off";

type ProviderErrorFacts = {
  /** A later attempt may succeed. */
  retryable?: boolean | undefined;
  /** Wait that the provider asks for. */
  retryAfterMs?: number | undefined;
  /** The request was rejected because the conversation is longer than the model can read. */
  isPromptTooLong?: boolean | undefined;
  /** For "unreachable": the request was not written, so the provider cannot have read it. */
  isUnsent?: boolean | undefined;
  /** For the log: an HTTP status or the code of a network error. Never text of the provider. */
  detail?: string | undefined;
};

/** Failure of a provider. Contains nothing that the provider has sent. */
export class ProviderError extends Error {
  override readonly name = "ProviderError";
  readonly kind: ProviderErrorKind;
  readonly facts: ProviderErrorFacts;
  constructor(kind: ProviderErrorKind, facts: ProviderErrorFacts = {}) {
    super(kind);
    this.kind = kind;
    this.facts = facts;
  }
}

/** Failures before the provider has read the input, wherever in the reply they come. */
export const UNREAD_KINDS: ReadonlySet<ProviderErrorKind> = new Set([
  "rate limited",
  "quota exhausted",
  "overloaded",
  "internal error",
  "refused the key",
  "rejected the request",
]);

/**
 * Whether the provider may have read the input of an attempt that has failed, and may charge for
 * it.
 */
export const mayBeRead = ({ kind, facts }: ProviderError): boolean =>
  kind === "unreachable" ? !facts.isUnsent : !UNREAD_KINDS.has(kind);

/** Returns a thrown ProviderError, or wraps any other error in one of the given kind. */
export function toProviderError(
  thrown: unknown,
  otherwise: "unreachable" | "broke off",
): ProviderError {
  if (thrown instanceof ProviderError) return thrown;
  const { code: detail } = thrown as NodeJS.ErrnoException;
  return new ProviderError(otherwise, { retryable: otherwise === "unreachable", detail });
}

/**
 * Meanings of error names (type, code or status) and HTTP statuses. The first match counts. Names
 * are in lower case and without `_`, `-`, `.` and spaces, since some servers write
 * `RateLimitError`, and others `rate-limit`. Messages are ignored, with one exception:
 * `EXHAUSTED_BALANCE`.
 */
const ERROR_PATTERNS: [RegExp, ProviderErrorKind][] = [
  [
    /insufficient(?:user)?quota|currentquota|quota(?:exceeded|failed)|credit|balance(?!r)|insufficientfunds|billing|budget|arrearage|overdue|freetieronly|spendlimit|usagelimit|perday/,
    "quota exhausted",
  ],
  [/ratelimit|slowdown|resourceexhausted|toomanyrequests|throttl/, "rate limited"],
  [/overloaded|unavailable|capacity/, "overloaded"],
  [/apikey|authentication|unauthenticated|unauthorized|permission/, "refused the key"],
  [/timeout|deadline/, "timed out"],
  [/contentfilter|contentpolicy|datainspection|moderation|safety/, "blocked the content"],
  [/invalidargument|notfound|toolarge|unsupported|contextlength/, "rejected the request"],
  [/http 40[13]/, "refused the key"],
  [/http 402/, "quota exhausted"],
  [/http (408|504|522|524)/, "timed out"],
  [/http 429/, "rate limited"],
  [/http (503|529)/, "overloaded"],
  // Some providers use these two names for every error.
  [/invalidrequest/, "rejected the request"],
  [/servererror|apierror|internal/, "internal error"],
  [/http [123]/, "unreadable reply"], // a redirect: following it would send the key to another host
  [/http 4/, "rejected the request"],
  [/http 5/, "internal error"],
];

/**
 * Messages about an exhausted balance, for which some providers have no error name. "Quota
 * exceeded" is not included, since Google uses the words for limits per minute.
 */
const EXHAUSTED_BALANCE = new RegExp(
  [
    /\b(insufficient|not enough|no|out of) (account |user )?(balance|credits?|funds|quota)\b/,
    /\b(balance|credits?)( is| are)? (too low|insufficient|exhausted|depleted|used up|not enough|negative)\b/,
    /\b(all (available )?credits|quota is not enough|reached your specified (api )?usage limits)\b/,
    /余额不足|额度不足|欠费/,
  ]
    .map(({ source }) => source)
    .join("|"),
  "i",
);
/** Kinds that may follow from the status alone, so that the message can be more precise. */
const BY_STATUS: ReadonlySet<ProviderErrorKind> = new Set([
  "rejected the request",
  "refused the key",
  "rate limited",
  "internal error",
  "broke off",
]);

type ErrorBody = Partial<
  Record<"type" | "code" | "status" | "status_code" | "statusCode" | "http_code", unknown>
> & {
  /** What it says, by the names of different frameworks. `error` is a name or a phrase. */
  [text in "message" | "msg" | "detail" | "error"]?: unknown;
} & {
  /** Set by OpenRouter for a prompt that a filter has flagged. */
  metadata?: { flagged_input?: unknown } | null;
  details?: { reason?: unknown; retryDelay?: unknown; violations?: { quotaId?: unknown }[] }[];
};

/**
 * The innermost error object of a document. Some servers nest them, and some send only a name, a
 * phrase or a flag.
 */
function innermostError(document: unknown): ErrorBody {
  let body: ErrorBody = typeof document === "object" && document ? document : { error: document };
  while (typeof body.error === "object" && body.error) body = body.error;
  return body;
}

/** The name of an error, rather than a sentence about it. */
const ERROR_NAME = /^[\w.-]{1,64}$/;

/**
 * Classifies an error, whether it was the body of an error response or part of a reply with status
 * 200.
 * @param error a document with an error in it, or the error, as received
 * @param status the HTTP status, unless that was 200
 */
export function classifyError(error: unknown, status?: number): ProviderErrorKind {
  const body = innermostError(error);
  const { type, code, status: named, status_code, statusCode, http_code, metadata, details } = body;
  const phrase = typeof body.error === "string" ? body.error : "";
  // Some providers send the status as text. Other numbers are provider-specific codes.
  const httpStatus =
    status ??
    [code, named, status_code, statusCode, http_code, statusIn(phrase)]
      .map(Number)
      .find((number) => number >= 400 && number < 600);
  const detailWords = listOf(details).flatMap((detail) => [
    detail?.reason,
    ...listOf(detail?.violations).map((violation) => violation?.quotaId),
  ]);
  const words = [
    type,
    code,
    named,
    ERROR_NAME.test(phrase) && phrase,
    metadata?.flagged_input !== undefined && "moderation",
    ...detailWords,
  ]
    .filter((word) => typeof word === "string")
    .map((word) => word.toLowerCase().replace(/[-_.\s]/g, ""))
    .concat(`http ${httpStatus}`)
    .join(" ");
  const kind = ERROR_PATTERNS.find(([pattern]) => pattern.test(words))?.[1] ?? "broke off";
  const isExhausted =
    BY_STATUS.has(kind) && textsIn(body).some((text) => EXHAUSTED_BALANCE.test(text));
  return isExhausted ? "quota exhausted" : kind;
}

/** What an error says, to people. */
const textsIn = ({ message, msg, detail, error }: ErrorBody): string[] =>
  [message, msg, detail, error].filter((text) => typeof text === "string");

/** How providers say that a conversation is too long. Most have no name for it. */
const TOO_LONG =
  /context_length|context length|context window|prompt is too long|maximum context|too many tokens|input token count.{0,100}exceeds|input is too long/i;

/** Whether a provider rejects a conversation because of its length. */
export function isPromptTooLong(error: unknown): boolean {
  const body = innermostError(error);
  const code = typeof body.code === "string" ? body.code : "";
  return [code, ...textsIn(body)].some((text) => TOO_LONG.test(text));
}

/** HTTP error statuses by their reason phrases in lower case. */
const STATUS_OF_PHRASE = new Map(
  Object.entries(STATUS_CODES)
    .filter(([status]) => Number(status) >= 400)
    .map(([status, phrase = ""]) => [phrase.toLowerCase(), Number(status)]),
);

/** Maximum length of a line that is read as a status line, with room for tags. */
const STATUS_LINE_CHARACTERS = 200;
/** "HTTP/1.1 503 Service Unavailable", or parts of it. */
const STATUS_LINE = /^(?:HTTP\/[\d.]+ |error:? )?(?:([45]\d\d)\b[ :.-]*)?(.*?)[ .!]*$/i;

/**
 * Classifies a line that a proxy or framework sends instead of a reply: an HTTP status, its reason
 * phrase, or both, with or without HTML tags.
 * @returns undefined for any other line
 */
export function classifyText(line: string): ProviderErrorKind | undefined {
  const status = statusIn(line);
  return status === undefined ? undefined : classifyError(undefined, status);
}

/** The HTTP status that a line names, if it names nothing else. */
function statusIn(line: string): number | undefined {
  if (line.length > STATUS_LINE_CHARACTERS) return undefined;
  const text = line.replace(/<[^<>]*>/g, "").trim();
  const [, number, phrase = ""] = STATUS_LINE.exec(text) ?? [];
  return number ? Number(number) : STATUS_OF_PHRASE.get(phrase.toLowerCase());
}

/** The delay that Google puts into the error ("17s"), in milliseconds. */
export function retryDelayOf(error: unknown): number | undefined {
  const delay = listOf(innermostError(error).details)
    .map((detail) => detail?.retryDelay)
    .find((value) => typeof value === "string");
  const seconds = /^(\d+(?:\.\d+)?)s$/.exec(delay ?? "")?.[1];
  return seconds === undefined ? undefined : Number(seconds) * 1000;
}

const listOf = <T>(value: T[] | undefined): T[] => (Array.isArray(value) ? value : []);
