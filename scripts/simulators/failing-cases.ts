import { setImmediate as nextTurn } from "node:timers/promises";
import { type Case, encode, type Play, perform, prefix, send, write } from "./play.ts";
import type { ErrorName } from "./speaker.ts";

const success = ({ asked }: Play) => ({ "content-type": asked.stream ? "text/event-stream" : "application/json" });

/** Says the first part of a good answer. */
const begin = async (play: Play) => {
  const { response, speaker, asked, events } = play;
  response.writeHead(200, success(play));
  if (!asked.stream) return write(response, '{"id":"half of a rep');
  for (const event of prefix(events)) await write(response, encode(event, speaker.lineEnd));
};
const forever = async ({ response }: Play, tick: () => string) => {
  while (!response.destroyed) {
    await write(response, tick());
    await nextTurn();
  }
};
const error =
  (name: ErrorName, headers: Record<string, string> = {}, times = Number.POSITIVE_INFINITY) =>
  (play: Play) => {
    if (play.attempt > times) return sendGood(play);
    const { status, body } = play.speaker.error(name, "sk-echo-of-a-key http://internal.host");
    play.response.writeHead(status, { "content-type": "application/json", ...headers }).end(JSON.stringify(body));
  };
const page = (status: number) => (play: Play) => {
  play.response.writeHead(status, { "content-type": "text/html" }).end("<html><body>sk-echo-of-a-key</body></html>");
};
const withHalfOfAnUmlaut = (part: Buffer) =>
  Buffer.from(part.toString("latin1").replaceAll("\xc3\xbc", "\xc3 "), "latin1");
const sendGood = (play: Play) => perform({}, play);

/** The first attempts fail in a way that passes. */
export const PASSING: Record<string, Case> = {
  "overloaded-once": { answer: error("overloaded", {}, 1) },
  "overloaded-twice": { answer: error("overloaded", {}, 2) },
  "broken-once": { answer: error("broken", {}, 1) },
  "rate-limited-once": { answer: error("rate-limited", { "retry-after": "0" }, 1) },
  "rate-limited-odd-once": { answer: error("rate-limited", { "retry-after": "-5" }, 1) },
  "rate-limited-vaguely-once": { answer: error("rate-limited", { "retry-after": "not before 2099" }, 1) },
  "retry-after": {
    answer: (play) => error("rate-limited", { "retry-after-ms": play.argument }, 1)(play),
  },
  "retry-at": {
    answer: (play) => error("rate-limited", { "retry-after": new Date(Date.now() - 1000).toUTCString() }, 1)(play),
  },
  "bad-gateway-once": { answer: (play) => (play.attempt === 1 ? page(502)(play) : sendGood(play)) },
  "request-timeout-once": { answer: (play) => (play.attempt === 1 ? page(408)(play) : sendGood(play)) },
  "reset-once": {
    answer: (play) => (play.attempt === 1 ? void play.response.socket?.resetAndDestroy() : sendGood(play)),
  },
  "closed-once": { answer: (play) => (play.attempt === 1 ? void play.response.socket?.destroy() : sendGood(play)) },
  "reset-after-headers-once": {
    answer: async (play) => {
      if (play.attempt > 1) return sendGood(play);
      play.response.writeHead(200, success(play)).flushHeaders();
      await nextTurn();
      play.response.socket?.resetAndDestroy();
    },
  },
};

/** Of the calls with the numbers 1 to 100, ten fail once and one of those twice, in turns of five ways. */
const FLAWS = ["overloaded-twice", "reset-once", "rate-limited-once", "bad-gateway-once", "closed-once"];
PASSING.flaky = {
  answer: (play) => {
    const number = Number(play.argument);
    const flaw = number % 10 === 0 ? PASSING[FLAWS[(number / 10) % FLAWS.length] ?? ""] : undefined;
    const isOver = number % 50 !== 0 && play.attempt > 1;
    return perform(isOver ? {} : (flaw ?? {}), play);
  },
};

/** The reply never comes, or breaks off. */
export const FAILURES: Record<string, Case> = {
  invalid: { answer: error("invalid") },
  "bad-key": { answer: error("bad-key") },
  "no-credit": { answer: error("no-credit") },
  forbidden: { answer: error("forbidden") },
  "not-found": { answer: error("not-found") },
  "too-large": { answer: page(413) },
  quota: { answer: error("quota") },
  "rate-limited": { answer: error("rate-limited") },
  "retry-tomorrow": { answer: error("rate-limited", { "retry-after": "86400" }) },
  "retry-at-tomorrow": {
    answer: (play) => error("rate-limited", { "retry-after": new Date(Date.now() + 86_400_000).toUTCString() })(play),
  },
  broken: { answer: error("broken") },
  overloaded: { answer: error("overloaded") },
  timeout: { answer: error("timeout") },
  "error-in-array": {
    answer: ({ response, speaker }) => {
      const { status, body } = speaker.error("forbidden");
      response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify([body]));
    },
  },
  "html-502": { answer: page(502) },
  "html-200": { answer: page(200) },
  "error-200": {
    answer: ({ response, speaker }) => {
      response
        .writeHead(200, { "content-type": "application/json" })
        .end(JSON.stringify(speaker.error("rate-limited").body));
    },
  },
  "no-content": { answer: ({ response }) => void response.writeHead(204).end() },
  empty: { answer: (play) => void play.response.writeHead(200, success(play)).end() },
  redirect: {
    answer: ({ response, argument }) => void response.writeHead(307, { location: argument }).end(),
  },
  reset: { answer: ({ response }) => void response.socket?.resetAndDestroy() },
  "error-event": {
    events: (events, speaker) => [...prefix(events), speaker.errorEvent(), ...events.slice(-1)],
    whole: (_, { error }) => error("overloaded").body,
  },
  "error-event-only": {
    events: (_, speaker) => [speaker.errorEvent(), { data: "[DONE]" }],
    whole: (_, { error }) => error("overloaded").body,
  },
  "error-event-named": {
    events: (events, speaker) => [
      ...prefix(events),
      { event: "error", data: JSON.stringify({ message: "sk-echo-of-a-key" }) },
      speaker.delta("never seen"),
    ],
    whole: (_, { error }) => error("overloaded").body,
  },
  "error-event-nameless": {
    events: (events, speaker) => [...prefix(events), { data: speaker.errorEvent().data }],
    whole: (_, { error }) => error("overloaded").body,
  },
  "malformed-event": {
    events: (events, speaker) => [...prefix(events), { data: '{"sk-echo-of-a-key": ' }, speaker.delta("never seen")],
    whole: () => undefined,
  },
  "broken-utf8": { send: (play, parts, headers) => send(play, parts.map(withHalfOfAnUmlaut), headers) },
  "done-only": { events: () => [{ data: "[DONE]" }], whole: () => ({ id: "empty" }) },
  "null-event": { events: (events) => [...prefix(events), { data: "null" }], whole: () => null },
  blocked: {
    events: (events, { blocked }) => [...prefix(events), ...blocked.events],
    whole: (_, { blocked }) => blocked.whole,
  },
  "reset-midway": {
    answer: async (play) => {
      await begin(play);
      await nextTurn();
      play.response.socket?.resetAndDestroy();
    },
  },
  "closed-midway": {
    answer: async (play) => {
      await begin(play);
      await nextTurn();
      play.response.socket?.end();
    },
  },
  "ended-midway": {
    answer: async (play) => {
      await begin(play);
      play.response.end();
    },
  },
  "half-an-event": {
    answer: async (play) => {
      await begin(play);
      play.response.end(play.asked.stream ? encode(play.speaker.delta("never seen"), "\n").slice(0, -8) : "");
    },
  },
  silent: { answer: () => {} },
  "silent-after-headers": { answer: (play) => play.response.writeHead(200, success(play)).flushHeaders() },
  "silent-midway": { answer: (play) => begin(play) },
  "pings-midway": {
    answer: async (play) => {
      await begin(play);
      await forever(play, () =>
        play.asked.stream ? `: ping\n\n${play.speaker.idle.map((event) => encode(event, "\n")).join("")}` : "\n",
      );
    },
  },
  endless: {
    answer: async (play) => {
      play.response.writeHead(200, success(play));
      await forever(play, () => encode(play.speaker.delta("forever and ever ".repeat(64)), "\n"));
    },
  },
  "endless-event": {
    answer: async (play) => {
      await begin(play);
      if (play.asked.stream) await write(play.response, "data: ");
      await forever(play, () => "x".repeat(65_536));
    },
  },
};
