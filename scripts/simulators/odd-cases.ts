import { type Case, PIECES, perform, prefix, REPLY } from "./play.ts";
import type { Event } from "./speaker.ts";
import { SHAPES } from "./whole-cases.ts";

/** Something else stands where text should. */
const saying = (json: string): Case => ({
  events: (events, { delta }) => {
    const { data, ...event } = delta("text");
    return [...prefix(events), { ...event, data: data.replace('"text"}', `${json}}`) }, delta("never seen")];
  },
  whole: (whole) => JSON.parse(JSON.stringify(whole).replace(JSON.stringify(REPLY), json)),
});

/** Where the event that opens a piece of text has room for some of it. */
const ROOM = /"(text|content)":""/;

/** The first piece comes with the opening. */
function opened(events: Event[]): Event[] {
  const at = events.findIndex(({ data }) => ROOM.test(data));
  const first = prefix(events).length - 3;
  return events.flatMap((event, index) => {
    if (index === at) return [{ ...event, data: event.data.replace(ROOM, `"$1":${JSON.stringify(PIECES[0])}`) }];
    return at >= 0 && index === first ? [] : [event];
  });
}

/** What `told` is made of: an error answer, or the events of a stream (and what a whole reply would be). */
export type Told = { status: number; body: unknown } | { events: Event[]; whole: unknown };

/** The name of a case that answers word for word so. */
export const told = (answer: Told) => `told ${Buffer.from(JSON.stringify(answer)).toString("base64url")}`;

const tell: Case = {
  answer(play) {
    const answer = JSON.parse(Buffer.from(play.argument, "base64url").toString()) as Told;
    if ("events" in answer) return perform({}, { ...play, ...answer });
    play.response.writeHead(answer.status, { "content-type": "application/json" }).end(JSON.stringify(answer.body));
  },
};

/** Answers in good form that surprise all the same. */
export const ODDITIES: Record<string, Case> = {
  "text-in-opening": { events: opened },
  told: tell,
  "reset-after-going-on": {
    ...SHAPES["reset-after-finish"],
    events: (events, { closes, delta }) => [...events.slice(0, events.findIndex(closes) + 1), delta(" P.S.")],
  },
  "tool-call": { events: (_, { toolCall }) => toolCall.events, whole: (_, { toolCall }) => toolCall.whole },
  "text-and-tool-call": { events: (events, { toolCall }) => [...prefix(events), ...toolCall.events] },
  "other-protocol": {
    answer: ({ response }) =>
      void response.socket?.write("HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n"),
  },
  "object-as-text": saying('{"toString":1}'),
  "list-as-text": saying("[null]"),
};
