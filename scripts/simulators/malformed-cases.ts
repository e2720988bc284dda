import type { Event } from "./dialect-encoder.ts";
import { type Case, PIECES, prefix, REPLY, respond } from "./script.ts";
import { SHAPES } from "./whole-cases.ts";

/** Replaces the text by another JSON value. */
const replacingText = (json: string): Case => ({
  events: (events, { delta }) => {
    const { data, ...event } = delta("text");
    return [
      ...prefix(events),
      { ...event, data: data.replace('"text"}', `${json}}`) },
      delta("never seen"),
    ];
  },
  whole: (whole) => JSON.parse(JSON.stringify(whole).replace(JSON.stringify(REPLY), json)),
});

/** The empty text in the event that opens a piece of text. */
const EMPTY_TEXT = /"(text|content)":""/;

/** Moves the first piece of text into the opening event. */
function opened(events: Event[]): Event[] {
  const at = events.findIndex(({ data }) => EMPTY_TEXT.test(data));
  const first = prefix(events).length - 3;
  return events.flatMap((event, index) => {
    if (index === at)
      return [
        { ...event, data: event.data.replace(EMPTY_TEXT, `"$1":${JSON.stringify(PIECES[0])}`) },
      ];
    return at >= 0 && index === first ? [] : [event];
  });
}

/** The response of a `verbatim` case: an error, or the events of a stream and the whole reply. */
export type VerbatimAnswer =
  | { status: number; body: unknown }
  | { events: Event[]; whole: unknown };

/** The name of a case with exactly this response. */
export const verbatim = (answer: VerbatimAnswer) =>
  `verbatim ${Buffer.from(JSON.stringify(answer)).toString("base64url")}`;

const answerVerbatim: Case = {
  answer(exchange) {
    const answer = JSON.parse(
      Buffer.from(exchange.argument, "base64url").toString(),
    ) as VerbatimAnswer;
    if ("events" in answer) return respond({}, { ...exchange, ...answer });
    exchange.response
      .writeHead(answer.status, { "content-type": "application/json" })
      .end(JSON.stringify(answer.body));
  },
};

/** Well-formed replies with unexpected values. */
export const MALFORMED: Record<string, Case> = {
  "text-in-opening": { events: opened },
  verbatim: answerVerbatim,
  "reset-after-going-on": {
    ...SHAPES["reset-after-finish"],
    events: (events, { closes, delta }) => [
      ...events.slice(0, events.findIndex(closes) + 1),
      delta(" P.S."),
    ],
  },
  "tool-call": {
    events: (events, { toolCall }) => [
      ...events.slice(0, prefix(events).length - 3),
      ...toolCall.events,
    ],
    whole: (_, { toolCall }) => toolCall.whole,
  },
  "text-and-tool-call": {
    events: (events, { toolCall }) => [...prefix(events), ...toolCall.events],
  },
  "other-protocol": {
    answer: ({ response }) =>
      void response.socket?.write(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n",
      ),
  },
  "object-as-text": replacingText('{"toString":1}'),
  "list-as-text": replacingText("[null]"),
};
