import type { IncomingHttpHeaders } from "node:http";

/** One event of a stream. */
export type Event = { event?: string; data: string };

/** Tokens that a reply reports. */
export type Tokens = { input: number; output: number; details?: TokenDetails };

/** Parts of the input and of the output, as far as a dialect reports them. */
export type TokenDetails = {
  /** Input from the cache. */
  cached: number;
  /** Input into the cache. */
  written: number;
  /** The part of it that is kept for an hour. */
  writtenForHour: number;
  reasoning: number;
};

/** An answer with an error status. */
export type ErrorAnswer = { status: number; body: unknown };

/** A request, parsed. */
export type ChatRequest = {
  model: string;
  stream: boolean;
  usage: boolean;
  lastMessage: string;
  input: string;
};

export type Received = {
  path: string;
  query: URLSearchParams;
  headers: IncomingHttpHeaders;
  body: unknown;
};

/** The errors that every provider has in its own format. */
export type ErrorName =
  | "invalid"
  | "bad-key"
  | "no-credit"
  | "forbidden"
  | "not-found"
  | "too-large"
  | "rate-limited"
  | "quota"
  | "broken"
  | "overloaded"
  | "timeout";

/** The provider side of a dialect. */
export type DialectEncoder = {
  lineEnd: "\n" | "\r\n";
  /** Reads a request, or refuses it as strictly as the real provider. */
  read(received: Received): ChatRequest | ErrorAnswer;
  /** All events of a good stream. */
  events(pieces: readonly string[], tokens: Tokens, chatRequest: ChatRequest): Event[];
  /** One piece of text. */
  delta(text: string): Event;
  /** A good reply as one document. */
  whole(text: string, tokens: Tokens, chatRequest: ChatRequest): unknown;
  /** @param echo text that the error repeats, such as a part of the key */
  error(name: ErrorName, echo?: string): ErrorAnswer;
  /** An error after the stream has begun. */
  errorEvent(): Event;
  /** Whether an event marks the end of the reply. */
  closes(event: Event): boolean;
  /** Frames without text. */
  idle: Event[];
  /** A frame of hidden reasoning. */
  thinking: Event;
  /** The end of a stream and the whole reply that a filter blocked. */
  blocked: { events: Event[]; whole: unknown };
  /** The same for a reply in which the model calls a tool. */
  toolCall: { events: Event[]; whole: unknown };
  /**
   * The same for a reply that thinks, says something and calls two tools at once: {@link CALLING}.
   */
  calling: { events: Event[]; whole: unknown };
};

/**
 * What the reply `calling` consists of. The pieces of arguments are cut where a real provider may
 * cut them: in a number, in an escape and between the halves of a character.
 */
export const CALLING = {
  thoughts: ["Where ", "is it warmer? 🤔"],
  text: "Let me look.",
  calls: [
    { name: "look_up", pieces: ['{"city":"Zür', "ich \\ud83d", '\\udc4b","days":1', "2}"] },
    { name: "look_up", pieces: ["", '{"city":"東京"}'] },
  ],
  usage: { input: 40, cached: 8, output: 30, reasoning: 10 },
} as const;
export const argumentsOf = ({ pieces }: { pieces: readonly string[] }) => pieces.join("");

/** Whether every result of a tool call follows the message with its call, and none is missing. */
export function areAnswered(turns: readonly { calls?: string[]; results?: string[] }[]): boolean {
  let open: string[] = [];
  for (const { calls = [], results = [] } of turns) {
    if (results.some((id) => !open.includes(id))) return false;
    open = open.filter((id) => !results.includes(id));
    if (calls.length > 0 && open.length > 0) return false;
    open = [...open, ...calls];
  }
  return open.length === 0;
}

/**
 * The counts of a case such as `billed`: input, output, and the details in their order, separated
 * by commas.
 */
export function billedTokens(argument: string): Tokens | undefined {
  if (argument === "") return undefined;
  const [input = 0, output = 0, cached = 0, written = 0, writtenForHour = 0, reasoning = 0] =
    argument.split(",").map(Number);
  return { input, output, details: { cached, written, writtenForHour, reasoning } };
}

/** The simulators' tokenizer. */
export const tokensIn = (text: string) => Math.ceil(text.length / 4);

export const isError = (answer: ChatRequest | ErrorAnswer): answer is ErrorAnswer =>
  "status" in answer;
