import { describe, expect, test } from "vitest";
import type { Adapter } from "../../../services/ai/providers/adapter.ts";
import { anthropicAdapter } from "../../../services/ai/providers/anthropic.ts";
import { googleAdapter } from "../../../services/ai/providers/google.ts";
import { openaiAdapter } from "../../../services/ai/providers/openai.ts";
import { decode, framesOf } from "./support.ts";

const chunk = (content: string, finish_reason: string | null = null) => ({
  choices: [{ index: 0, delta: { content }, finish_reason }],
});
const piece = (text: string) => framesOf(chunk(text));
const stop = framesOf({ choices: [{ index: 0, delta: {}, finish_reason: "stop" }] });
const done = "data: [DONE]\n\n";
const whole = {
  choices: [{ index: 0, message: { content: "ab" }, finish_reason: "stop" }],
  usage: { prompt_tokens: 9, completion_tokens: 2 },
};

const candidate = (text: string, finishReason?: string) => ({
  candidates: [{ index: 0, content: { parts: [{ text }] }, finishReason }],
});
const geminiPiece = (text: string) => framesOf(candidate(text)).replaceAll("\n", "\r\n");
const geminiBusy = { error: { code: 503, message: "busy", status: "UNAVAILABLE" } };

const anthropicPiece = (text: string) =>
  framesOf({ type: "content_block_delta", delta: { type: "text_delta", text } });
const messageStart = (content: unknown) =>
  framesOf({ type: "message_start", message: { content, usage: { input_tokens: 9 } } });
const anthropicStop = framesOf({ type: "message_delta", delta: { stop_reason: "end_turn" } });
const messageStop = 'event: message_stop\ndata: {"type":"message_stop"}\n\n';
const anthropicBusy = { type: "error", error: { type: "overloaded_error", message: "busy" } };

const UNICODE_LINES = "a\u0085b\u2028c\u2029\u0085";

type Body = { what: string; adapter: Adapter; body: string; text: string; error?: string };

/** Bodies of every framing, with errors in every place. */
const BODIES: Body[] = [
  // Line ends of Unicode in text, which end no line of a body
  {
    what: "raw line ends of Unicode in an event",
    adapter: openaiAdapter,
    body: `${piece(UNICODE_LINES)}${stop}${done}`,
    text: UNICODE_LINES,
  },
  {
    what: "raw line ends of Unicode in a document",
    adapter: googleAdapter,
    body: JSON.stringify(candidate(UNICODE_LINES, "STOP"), null, 2),
    text: UNICODE_LINES,
  },
  {
    what: "raw line ends of Unicode in documents on lines of their own",
    adapter: googleAdapter,
    body: `${JSON.stringify(candidate(UNICODE_LINES))}\n${JSON.stringify(candidate("!", "STOP"))}\n`,
    text: `${UNICODE_LINES}!`,
  },
  // Errors that are no data
  {
    what: "llama.cpp's field error",
    adapter: openaiAdapter,
    body: `${piece("a")}error: {"code":500,"message":"context shift","type":"server_error"}\n\n${done}`,
    text: "a",
    error: "internal error",
  },
  {
    what: "a field error in plain words",
    adapter: openaiAdapter,
    body: `${piece("a")}error: the model has crashed\n\n${done}`,
    text: "a",
    error: "broke off",
  },
  {
    what: "a bare error on one line",
    adapter: openaiAdapter,
    body: `${piece("a")}{"error":{"message":"x","code":429}}\n${done}`,
    text: "a",
    error: "rate limited",
  },
  {
    what: "a bare error before the finish marker",
    adapter: openaiAdapter,
    body: `${piece("a")}{"error":{"message":"x","code":503}}\n\n${stop}${done}`,
    text: "a",
    error: "overloaded",
  },
  {
    what: "a bare error on many lines",
    adapter: googleAdapter,
    body: `${geminiPiece("a")}${JSON.stringify(geminiBusy, null, 2)}\n`,
    text: "a",
    error: "overloaded",
  },
  {
    what: "a bare error in an array",
    adapter: googleAdapter,
    body: `${geminiPiece("a")}${JSON.stringify([geminiBusy], null, 2)}`,
    text: "a",
    error: "overloaded",
  },
  {
    what: "a bare error of Anthropic, and message_stop",
    adapter: anthropicAdapter,
    body: `${anthropicPiece("a")}${JSON.stringify(anthropicBusy)}\n\n${messageStop}`,
    text: "a",
    error: "overloaded",
  },
  ...[
    "Internal Server Error",
    "500 Internal Server Error",
    "<h1>500 Internal Server Error</h1>",
  ].map(
    (line): Body => ({
      what: line,
      adapter: openaiAdapter,
      body: `${piece("a")}${line}\n\n${done}`,
      text: "a",
      error: "internal error",
    }),
  ),
  {
    what: "a reason phrase as data",
    adapter: openaiAdapter,
    body: `${piece("a")}data: Service Unavailable\n\n${done}`,
    text: "a",
    error: "overloaded",
  },
  // Documents that are no part of a reply, and may be errors of servers in front
  ...[
    { detail: "Internal Server Error" },
    { message: "Endpoint request timed out", statusCode: 504 },
    { success: false, errors: [{ code: 3040, message: "Capacity temporarily exceeded" }] },
    { code: 50001, msg: "busy" },
    { model: "m", object: "chat.completion.chunk", message: "busy", code: 500 },
    { choices: null, base_resp: { status_code: 1027, status_msg: "output new_sensitive" } },
    { object: "chat.completion", error_code: 336_501, error_msg: "busy" },
  ].map(
    (document): Body => ({
      what: `${JSON.stringify(document)}, then [DONE] without a finish reason`,
      adapter: openaiAdapter,
      body: `${piece("a")}${framesOf(document)}${done}`,
      text: "a",
      error: "broke off",
    }),
  ),
  {
    what: "a document with the name of the model alone, then [DONE] without a finish reason",
    adapter: openaiAdapter,
    body: `${piece("a")}${framesOf({ id: "c", object: "chat.completion.chunk", model: "m" })}${piece("b")}${done}`,
    text: "ab",
  },
  {
    what: "a piece without a type among others of Anthropic",
    adapter: anthropicAdapter,
    body: `${anthropicPiece("a")}${framesOf({ type: "content_block_delta", delta: { text: "b" } })}${anthropicStop}${messageStop}`,
    text: "a",
    error: "unreadable reply",
  },
  {
    what: "a piece without its text among others of Anthropic",
    adapter: anthropicAdapter,
    body: `${anthropicPiece("a")}${framesOf({ type: "content_block_delta", delta: { type: "text_delta", content: "b" } })}${anthropicStop}${messageStop}`,
    text: "a",
    error: "unreadable reply",
  },
  {
    what: "a block of Anthropic that begins without a text",
    adapter: anthropicAdapter,
    body: `${framesOf({ type: "content_block_start", index: 0, content_block: { type: "text" } })}${anthropicPiece("ab")}${anthropicStop}${messageStop}`,
    text: "ab",
  },
  {
    what: "a document of no dialect, then a finish reason",
    adapter: openaiAdapter,
    body: `${piece("a")}${framesOf({ detail: "retrying" })}${piece("b")}${stop}${done}`,
    text: "ab",
  },
  {
    what: "a document of no dialect, then message_stop without a stop reason",
    adapter: anthropicAdapter,
    body: `${anthropicPiece("a")}${framesOf({ detail: "Internal Server Error" })}${messageStop}`,
    text: "a",
    error: "broke off",
  },
  {
    what: "a document in an event with a name, then [DONE] without a finish reason",
    adapter: openaiAdapter,
    body: `${piece("a")}event: status\ndata: {"step":1}\n\n${piece("b")}${done}`,
    text: "ab",
  },
  ...["failed", "fatal", "request_aborted", "Timeout"].flatMap((name): Body[] => [
    {
      what: `an event ${name}, then [DONE] without a finish reason`,
      adapter: openaiAdapter,
      body: `${piece("a")}event: ${name}\ndata: {}\n\n${done}`,
      text: "a",
      error: "broke off",
    },
    {
      what: `an event ${name}, then a finish reason`,
      adapter: openaiAdapter,
      body: `${piece("a")}event: ${name}\ndata: {}\n\n${piece("b")}${stop}${done}`,
      text: "ab",
    },
  ]),
  {
    what: "an array in an event with a name, then [DONE] without a finish reason",
    adapter: openaiAdapter,
    body: `${piece("a")}event: status\ndata: [{"step":1}]\n\n${piece("b")}${done}`,
    text: "ab",
  },
  {
    what: "a piece without a type in an event of Anthropic that names it",
    adapter: anthropicAdapter,
    body: `${anthropicPiece("a")}event: content_block_delta\n${framesOf({ delta: { type: "text_delta", text: "b" } })}${anthropicStop}${messageStop}`,
    text: "a",
    error: "unreadable reply",
  },
  // A server may begin another reply. Anthropic's SDK fails as well.
  {
    what: "another message of Anthropic after the text of the first",
    adapter: anthropicAdapter,
    body: `${messageStart([])}${anthropicPiece("a")}${messageStart([])}${anthropicPiece("ab")}${anthropicStop}${messageStop}`,
    text: "a",
    error: "unreadable reply",
  },
  // Anthropic's SDK begins the message with it, so leaving it out would lose text.
  {
    what: "text in Anthropic's message_start",
    adapter: anthropicAdapter,
    body: `${messageStart([{ type: "text", text: "a" }])}${anthropicPiece("b")}${anthropicStop}${messageStop}`,
    text: "ab",
  },
  {
    what: "content of another type in Anthropic's message_start",
    adapter: anthropicAdapter,
    body: `${messageStart("a")}${anthropicPiece("b")}${anthropicStop}${messageStop}`,
    text: "",
    error: "unreadable reply",
  },
  // Lists of servers in Lua and PHP
  {
    what: "empty lists that are objects",
    adapter: openaiAdapter,
    body: `${framesOf({ choices: {} }, { choices: [{ delta: { content: {}, tool_calls: {} } }] })}${piece("ab")}${stop}${framesOf({ choices: {}, usage: whole.usage })}${done}`,
    text: "ab",
  },
  {
    what: "empty lists of Gemini that are objects",
    adapter: googleAdapter,
    body: `${framesOf({ candidates: {} }, { candidates: [{ content: { parts: {} } }] })}${geminiPiece("a")}${framesOf(candidate("b", "STOP"))}`,
    text: "ab",
  },
  {
    what: "an empty list of Anthropic that is an object",
    adapter: anthropicAdapter,
    body: `${messageStart({})}${anthropicPiece("ab")}${anthropicStop}${messageStop}`,
    text: "ab",
  },
  ...[
    { choices: { 0: chunk("b").choices[0] } },
    { choices: "b" },
    { choices: ["b"] },
    { choices: [{ index: 0, delta: { tool_calls: { id: "1", function: { name: "b" } } } }] },
  ].map(
    (document): Body => ({
      what: `another value for a list: ${JSON.stringify(document)}`,
      adapter: openaiAdapter,
      body: `${piece("a")}${framesOf(document)}${stop}${done}`,
      text: "a",
      error: "unreadable reply",
    }),
  ),
  ...[
    "Error",
    "error ",
    "stream_error",
    "server-error",
    "exception",
    "throttlingException",
  ].flatMap((name): Body[] => [
    {
      what: `words in an event ${name}`,
      adapter: openaiAdapter,
      body: `${piece("a")}event: ${name}\ndata: the model has crashed\n\n${done}`,
      text: "a",
      error: "broke off",
    },
    {
      what: `a document in an event ${name}`,
      adapter: openaiAdapter,
      body: `${piece("a")}event: ${name}\ndata: {"message":"x","code":503}\n\n${done}`,
      text: "a",
      error: "overloaded",
    },
  ]),
  ...["event: error\n\n", "event:error\r\n\r\n", ": x\nevent: error\nid: 7\n\n"].map(
    (frame): Body => ({
      what: `an error event without data ${JSON.stringify(frame)}`,
      adapter: openaiAdapter,
      body: `${piece("a")}${frame}${piece("b")}${stop}${done}`,
      text: "a",
      error: "broke off",
    }),
  ),
  {
    what: "the name of an error event in a text, behind a line end of Unicode",
    adapter: openaiAdapter,
    body: `${piece("a\u2028event: error\u2028")}${stop}${done}`,
    text: "a\u2028event: error\u2028",
  },
  // Errors of other forms
  ...(
    [
      [{ error: "overloaded" }, "overloaded"],
      [{ error: "rate_limit_exceeded", message: "x" }, "rate limited"],
      [{ error: "Service Unavailable", message: "x" }, "overloaded"],
      [{ error: "x", message: "x", statusCode: 429 }, "rate limited"],
      [{ error: true, code: 429 }, "rate limited"],
      [{ error: { error: { type: "rate_limit_error" } } }, "rate limited"],
      [{ error: { type: "RateLimitError", code: null } }, "rate limited"],
      [{ error: { code: "Throttling.RateQuota" } }, "rate limited"],
      [{ error: { type: "InvalidApiKey" } }, "refused the key"],
      [{ error: { message: "x", status: 503 } }, "overloaded"],
      [{ error: { message: "x", statusCode: "401" } }, "refused the key"],
      [{ error: { msg: "Insufficient balance", code: 400 } }, "quota exhausted"],
      [{ error: { type: "Too Many Requests" } }, "rate limited"],
      [{ error: { code: "503 Service Unavailable" } }, "overloaded"],
      [{ choices: [{ index: 0, delta: {} }], x_groq: { error: "over_capacity" } }, "overloaded"],
      [{ choices: [], x_groq: { error: "it broke" } }, "broke off"],
      [{ error: "it broke" }, "broke off"],
      [{ error: [] }, "broke off"],
    ] as const
  ).map(
    ([document, error]): Body => ({
      what: `the error ${JSON.stringify(document)}`,
      adapter: openaiAdapter,
      body: `${piece("a")}${framesOf(document)}${stop}${done}`,
      text: "a",
      error,
    }),
  ),
  // Pieces that are damaged, or no event any more
  ...[
    `Data: ${JSON.stringify(chunk("b"))}`,
    ` data: ${JSON.stringify(chunk("b"))}`,
    `data : ${JSON.stringify(chunk("b"))}`,
    JSON.stringify(chunk("b")).slice(21), // a colon would make it a comment
    JSON.stringify(chunk("b")).slice(0, -20),
  ].map(
    (line): Body => ({
      what: `a piece as the line ${line}`,
      adapter: openaiAdapter,
      body: `${piece("a")}${line}\n\n${piece("c")}${stop}${done}`,
      text: "a",
      error: "unreadable reply",
    }),
  ),
  {
    what: "a damaged line behind the finish marker",
    adapter: openaiAdapter,
    body: `${piece("ab")}${stop}Data: ${JSON.stringify(chunk("c"))}\n\n${done}`,
    text: "ab",
  },
  {
    what: "a document per line, one of them damaged",
    adapter: openaiAdapter,
    body: [
      JSON.stringify(chunk("a")),
      `x${JSON.stringify(chunk("b"))}`,
      JSON.stringify(chunk("c", "stop")),
    ].join("\n"),
    text: "a",
    error: "unreadable reply",
  },
  {
    what: "a document per line, the last of them cut",
    adapter: openaiAdapter,
    body: [chunk("a"), chunk("b")]
      .map((each) => JSON.stringify(each))
      .join("\n")
      .slice(0, -9),
    text: "a",
    error: "broke off",
  },
  {
    what: "an array per line",
    adapter: googleAdapter,
    body: [candidate("a"), candidate("b", "STOP")].map((each) => JSON.stringify([each])).join("\n"),
    text: "ab",
  },
  {
    what: "an error in the piece of a message",
    adapter: openaiAdapter,
    body: `${piece("a")}${framesOf({ choices: [{ index: 0, delta: { error: { code: 500 } } }] })}${done}`,
    text: "a",
    error: "internal error",
  },
  // The whole reply behind its pieces
  {
    what: "MiniMax's last event, which repeats the message",
    adapter: openaiAdapter,
    body: `${piece("a")}${piece("b")}${framesOf(whole)}`,
    text: "ab",
  },
  {
    what: "the message twice",
    adapter: openaiAdapter,
    body: `${framesOf(whole, whole)}${done}`,
    text: "ab",
  },
  {
    what: "the message twice, on lines of their own",
    adapter: openaiAdapter,
    body: `${JSON.stringify(whole)}\n${JSON.stringify(whole)}\n`,
    text: "ab",
  },
  {
    what: "the message of a last event beside an empty piece",
    adapter: openaiAdapter,
    body: `${piece("a")}${piece("b")}${framesOf({ choices: [{ ...whole.choices[0], delta: {} }] })}${done}`,
    text: "ab",
  },
  {
    what: "Anthropic's message behind its pieces",
    adapter: anthropicAdapter,
    body: `${anthropicPiece("a")}${anthropicPiece("b")}${framesOf({ type: "message", content: [{ type: "text", text: "ab" }], stop_reason: "end_turn" })}${messageStop}`,
    text: "ab",
  },
  {
    what: "other words, then [DONE] without a finish reason",
    adapter: openaiAdapter,
    body: `${piece("a")}upstream connect error or disconnect before headers\n\n${done}`,
    text: "a",
    error: "broke off",
  },
  {
    what: "other words, then message_stop without a stop reason",
    adapter: anthropicAdapter,
    body: `${anthropicPiece("a")}upstream connect error\n\n${messageStop}`,
    text: "a",
    error: "broke off",
  },
  {
    what: "other words, then a finish reason",
    adapter: openaiAdapter,
    body: `${piece("a")}retrying upstream\n\n${piece("b")}${stop}${done}`,
    text: "ab",
  },
  {
    what: "[DONE] without a finish reason, which some servers leave out",
    adapter: openaiAdapter,
    body: `${piece("a")}${piece("b")}${done}`,
    text: "ab",
  },
  { what: "[DONE] alone", adapter: openaiAdapter, body: done, text: "", error: "broke off" },
  {
    what: "message_stop alone",
    adapter: anthropicAdapter,
    body: messageStop,
    text: "",
    error: "broke off",
  },
  {
    what: "[DONE] in another dialect",
    adapter: googleAdapter,
    body: `${geminiPiece("a")}${done}`,
    text: "a",
    error: "broke off",
  },
  {
    what: "an error page alone",
    adapter: openaiAdapter,
    body: "<html><body>Sign in to the network</body></html>\n",
    text: "",
    error: "unreadable reply",
  },
  // Documents
  { what: "a document", adapter: openaiAdapter, body: JSON.stringify(whole), text: "ab" },
  {
    what: "a document on many lines",
    adapter: openaiAdapter,
    body: `${JSON.stringify(whole, null, 2)}\n`,
    text: "ab",
  },
  {
    what: "a document and [DONE]",
    adapter: openaiAdapter,
    body: `${JSON.stringify(whole)}\n\n${done}`,
    text: "ab",
  },
  {
    what: "a document without a finish reason",
    adapter: openaiAdapter,
    body: JSON.stringify({ choices: [{ message: { content: "ab" }, finish_reason: null }] }),
    text: "ab",
  },
  {
    what: "half a document",
    adapter: openaiAdapter,
    body: JSON.stringify(whole, null, 2).slice(0, -20),
    text: "",
    error: "unreadable reply",
  },
  {
    what: "a document per line",
    adapter: openaiAdapter,
    body: [chunk("a"), chunk("b", "stop")].map((each) => `${JSON.stringify(each)}\n`).join(""),
    text: "ab",
  },
  {
    what: "a document per line, without a finish reason",
    adapter: openaiAdapter,
    body: [chunk("a"), chunk("b")].map((each) => `${JSON.stringify(each)}\n`).join(""),
    text: "ab",
    error: "broke off",
  },
  {
    what: "one document of a stream of them",
    adapter: openaiAdapter,
    body: `${JSON.stringify(chunk("a"))}\n`,
    text: "a",
    error: "broke off",
  },
  {
    what: "Gemini's array",
    adapter: googleAdapter,
    body: JSON.stringify([candidate("a"), candidate("b", "STOP")], null, 2),
    text: "ab",
  },
  {
    what: "Gemini's array on one line",
    adapter: googleAdapter,
    body: JSON.stringify([candidate("a"), candidate("b", "STOP")]),
    text: "ab",
  },
  {
    what: "Gemini's array with an error",
    adapter: googleAdapter,
    body: JSON.stringify([candidate("a"), geminiBusy], null, 2),
    text: "a",
    error: "overloaded",
  },
  {
    what: "half of Gemini's array",
    adapter: googleAdapter,
    body: JSON.stringify([candidate("a"), candidate("b", "STOP")], null, 2).slice(0, -30),
    text: "",
    error: "unreadable reply",
  },
  // Keep-alives
  ...[
    "data: : keepalive\n\n",
    'data: ": keepalive"\n\n',
    "data:\n\n",
    'data: ""\n\n',
    "data: ping\n\n",
    "event: keepalive\ndata: ping\n\n",
    "event: ping\ndata: ping\n\n",
    "event: ping\ndata: {}\n\n",
    "event: ping\ndata:\n\n",
    "event: ping\ndata: null\n\n",
    "event: ping\ndata: []\n\n",
    "event: heartbeat\ndata: 2027-01-01T00:00:00Z\n\n",
    "event: status\ndata: 17\n\n",
    ": comment\n\n",
    ":\n\n",
    "id: 7\n\n",
    "event: ping\n\n",
  ].map(
    (frame): Body => ({
      what: `keep-alive ${JSON.stringify(frame)}`,
      adapter: openaiAdapter,
      body: `${frame}${piece("a")}${frame}${piece("b")}${frame}${stop}${frame}${done}`,
      text: "ab",
    }),
  ),
  {
    what: "a ping of another dialect",
    adapter: anthropicAdapter,
    body: `event: ping\ndata: ping\n\n${anthropicPiece("a")}data: : ping\n\n${anthropicPiece("b")}${anthropicStop}event: x\ndata: y\n\n${messageStop}`,
    text: "ab",
  },
  // What is unreadable
  ...[
    'data: {"choices":[{"delta":\n\n',
    'data: x"choices":[{"delta":{"content":"b"}}]}\n\n',
    "data: null\n\n",
    "data: 7\n\n",
    "data: true\n\n", // OpenAI's SDK passes it on; it may have been a piece
  ].flatMap((frame): Body[] => [
    {
      what: `unreadable ${JSON.stringify(frame)}`,
      adapter: openaiAdapter,
      body: `${piece("a")}${frame}${piece("b")}${stop}${done}`,
      text: "a",
      error: "unreadable reply",
    },
    {
      what: `unreadable after the finish marker ${JSON.stringify(frame)}`,
      adapter: openaiAdapter,
      body: `${piece("a")}${piece("b")}${stop}${frame}${done}`,
      text: "ab",
    },
  ]),
  {
    what: "a damaged event of Anthropic",
    adapter: anthropicAdapter,
    body: `${anthropicPiece("a")}event: content_block_delta\ndata: x"type":"content_block_delta"}\n\n${anthropicStop}${messageStop}`,
    text: "a",
    error: "unreadable reply",
  },
  // Closing frames
  ...[
    "data: [DONE]\n\n",
    'data: "[DONE]"\n\n',
    "data:[DONE]\n\n",
    "data:  [done] \n\n",
    "event: done\ndata: [DONE]\n\n",
    "data: [DONE]",
  ].map(
    (frame): Body => ({
      what: `closing frame ${JSON.stringify(frame)}`,
      adapter: openaiAdapter,
      body: `${piece("a")}${piece("b")}${stop}${frame}`,
      text: "ab",
    }),
  ),
];

describe("Bodies of replies, split at any byte", () => {
  test.each(BODIES)("$what", ({ adapter, body, text, error }) => {
    const bytes = Buffer.from(body);
    for (let cut = 0; cut < bytes.length; cut++) {
      const outcome = decode(adapter, bytes.subarray(0, cut), bytes.subarray(cut));
      expect({ cut, ...outcome }).toMatchObject({ cut, text, error });
    }
    const everyByte = [...bytes].map((byte) => Buffer.of(byte));
    expect(decode(adapter, ...everyByte)).toMatchObject({ text, error });
  });
});
