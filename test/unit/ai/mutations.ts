import type { DialectEncoder, Event } from "../../../scripts/simulators/dialect-encoder.ts";
import { encode } from "../../../scripts/simulators/script.ts";
import type { SimulatedDialect } from "../../../scripts/simulators/simulator.ts";

/** A piece of a stream: an event or text as it is, the silence before it, and how it is written. */
export type Frame = { afterMs?: number; lineEnd?: string; write?: (text: string) => string } & (
  | { event?: string; data: string }
  | { raw: string }
);

/** A change of a stream at one place. Undefined where it makes no sense. */
export type Mutation = {
  name: string;
  change(frames: Frame[], at: number): Frame[] | undefined;
};

/** Longer than what may follow the proof of an end, and than the silence between two pieces. */
const SHORT_MS = 5_000;
const LONG_MS = 90_000;

/** The bytes of a frame. */
export const bytesOf = ({ lineEnd = "\n", write = (text) => text, ...frame }: Frame): Buffer =>
  Buffer.from(write("raw" in frame ? frame.raw : encode(frame as Event, lineEnd)));

type Words = { finish(word: unknown): Event; usage: Event; elsewhere: Event };
const json = (document: object): Event => ({ data: JSON.stringify(document) });
const named = (event: string, document: object): Event => ({
  event,
  data: JSON.stringify({ type: event, ...document }),
});

/** Events of each dialect: a finish marker, counts of zero, and text of a second candidate. */
const WORDS: Record<SimulatedDialect, Words> = {
  openai: {
    finish: (word) => json({ choices: [{ index: 0, delta: {}, finish_reason: word }] }),
    usage: json({
      choices: [],
      usage: { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 },
    }),
    elsewhere: json({ choices: [{ index: 1, delta: { content: "elsewhere" } }] }),
  },
  get "openai-compatible"() {
    return this.openai;
  },
  anthropic: {
    finish: (word) => named("message_delta", { delta: { stop_reason: word } }),
    usage: named("message_delta", { delta: {}, usage: { input_tokens: 0, output_tokens: 0 } }),
    elsewhere: named("some_later_event", { text: "elsewhere" }),
  },
  google: {
    finish: (word) => json({ candidates: [{ index: 0, finishReason: word }] }),
    usage: json({ usageMetadata: { promptTokenCount: 0, candidatesTokenCount: 0 } }),
    elsewhere: json({ candidates: [{ index: 1, content: { parts: [{ text: "elsewhere" }] } }] }),
  },
};

/** Finish reasons that providers and proxies have sent, by what each dialect calls the first. */
const REASONS: Record<SimulatedDialect, unknown[]> = {
  openai: ["stop", "STOP", "length", "MAX_TOKENS", "max_output_tokens"],
  "openai-compatible": ["stop", "Stop", "length", "max-tokens"],
  anthropic: ["end_turn", "END-TURN", "stop_sequence", "Max_Tokens"],
  google: ["STOP", "stop", "max-tokens"],
};
const FAILURES = [
  "insufficient_system_resource",
  "network_error",
  "abort",
  "repetition",
  "content-filter",
  "SAFETY",
  "OTHER",
  { code: 500 },
];

/** What may stand between two events of a stream. */
function insertionsOf(dialect: SimulatedDialect, encoder: DialectEncoder): [string, Frame][] {
  const { finish, usage, elsewhere } = WORDS[dialect];
  const { body } = encoder.error("overloaded");
  const raw = (text: string): Frame => ({ raw: text });
  return [
    ["a comment", raw(": keep-alive\n\n")],
    ["a comment in data", raw("data: : keepalive\n\n")],
    ["an empty event", raw("data:\n\n")],
    ["an empty string", raw('data: ""\n\n')],
    ["a keep-alive of its own name", raw("event: keepalive\ndata: ping\n\n")],
    ["a ping that is no JSON", raw("event: ping\ndata: ping\n\n")],
    ["other fields", raw("id: 7\nretry: 100\n\n")],
    ["an unknown field", raw("unheard-of: x\n\n")],
    ...encoder.idle.map((event, index): [string, Frame] => [`idle ${index}`, event]),
    ["reasoning", encoder.thinking],
    ["counts of zero", usage],
    ["what belongs elsewhere", elsewhere],
    ["an error event", encoder.errorEvent()],
    ["an error without a name", { data: encoder.errorEvent().data }],
    ["a bare error", raw(`${JSON.stringify(body)}\n\n`)],
    ["a bare error on several lines", raw(`${JSON.stringify(body, null, 1)}\n\n`)],
    ["a field error", raw(`error: ${JSON.stringify(body)}\n\n`)],
    ["an error in words", raw("event: error\ndata: it broke\n\n")],
    ["an error of its own shape", raw('event: error\ndata: {"message":"it broke"}\n\n')],
    ["an error page", raw("Internal Server Error\n\n")],
    ["a status line", raw("HTTP/1.1 503 Service Unavailable\n\n")],
    ["a cut document", raw('data: {"choices": [\n\n')],
    ["null", raw("data: null\n\n")],
    ["a number", raw("data: 7\n\n")],
    ["[DONE]", { data: "[DONE]" }],
    ["a quoted [DONE]", { data: '"[DONE]"' }],
    ...[...REASONS[dialect], ...FAILURES].map((word): [string, Frame] => [
      `the marker ${JSON.stringify(word)}`,
      finish(word),
    ]),
  ];
}

/** Everything that may happen to one event of a stream. */
export function mutationsOf(dialect: SimulatedDialect, encoder: DialectEncoder): Mutation[] {
  const insertions = insertionsOf(dialect, encoder);
  return [
    ...insertions.map(
      ([name, frame]): Mutation => ({
        name: `insert ${name}`,
        change: (frames, at) => frames.toSpliced(at, 0, frame),
      }),
    ),
    ...insertions.map(
      ([name, frame]): Mutation => ({
        name: `replace by ${name}`,
        change: (frames, at) => frames.with(at, frame),
      }),
    ),
    { name: "drop", change: (frames, at) => frames.toSpliced(at, 1) },
    {
      name: "insert the opening",
      change: (frames, at) => frames.toSpliced(at, 0, frames[0] as Frame),
    },
    { name: "repeat", change: (frames, at) => frames.toSpliced(at, 0, frames[at] as Frame) },
    edit("delay a little", (frame) => ({ ...frame, afterMs: SHORT_MS })),
    edit("delay for long", (frame) => ({ ...frame, afterMs: LONG_MS })),
    edit("end lines by CRLF", (frame) => ({ ...frame, lineEnd: "\r\n" })),
    edit("end lines by CR", (frame) => ({ ...frame, lineEnd: "\r" })),
    edit("end lines by LF", (frame) => ({ ...frame, lineEnd: "\n" })),
    edit("write without blanks", (frame) => ({
      ...frame,
      write: (text) => text.replace(/^(data|event): /gm, "$1:"),
    })),
    edit("take its name", (frame) => ("data" in frame ? { data: frame.data } : undefined)),
    edit("name message", (frame) => ("data" in frame ? { ...frame, event: "message" } : undefined)),
    edit("name anew", (frame) => ("data" in frame ? { ...frame, event: "delta" } : undefined)),
    edit("write on several lines", (frame) => ("data" in frame ? onLines(frame) : undefined)),
    ...[...REASONS[dialect], ...FAILURES].map((word) =>
      edit(`mark with ${JSON.stringify(word)}`, (frame) =>
        "data" in frame ? withMarker(frame, word) : undefined,
      ),
    ),
  ];
}

const edit = (name: string, change: (frame: Frame) => Frame | undefined): Mutation => ({
  name,
  change(frames, at) {
    const changed = change(frames[at] as Frame);
    return changed && frames.with(at, changed);
  },
});

/** Whether an event holds a document on one line. */
const isDocument = (data: string) => data.startsWith("{") && !data.includes("\n");

function onLines(frame: Frame & { data: string }): Frame | undefined {
  if (!isDocument(frame.data)) return undefined;
  const pretty = JSON.stringify(JSON.parse(frame.data), null, 1);
  return { ...frame, data: pretty.replaceAll("\n", "\ndata: ") };
}

/** The event with a finish marker in it, if it has a place for one. */
function withMarker(frame: Frame & { data: string }, word: unknown): Frame | undefined {
  if (!isDocument(frame.data)) return undefined;
  const document = JSON.parse(frame.data);
  const [choice] = document.choices ?? [];
  const [candidate] = document.candidates ?? [];
  if (!choice && !candidate) return undefined;
  if (choice) choice.finish_reason = word;
  if (candidate) candidate.finishReason = word;
  return { ...frame, data: JSON.stringify(document) };
}
