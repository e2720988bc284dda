import { type Case, prefix, REPLY } from "./play.ts";

/** Something else stands where text should. */
const saying = (json: string): Case => ({
  events: (events, { delta }) => {
    const { data, ...event } = delta("text");
    return [...prefix(events), { ...event, data: data.replace('"text"}', `${json}}`) }, delta("never seen")];
  },
  whole: (whole) => JSON.parse(JSON.stringify(whole).replace(JSON.stringify(REPLY), json)),
});

/** Well-formed answers that say what no provider should. */
export const ODDITIES: Record<string, Case> = {
  "other-protocol": {
    answer: ({ response }) =>
      void response.socket?.write("HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n"),
  },
  "object-as-text": saying('{"toString":1}'),
  "list-as-text": saying("[null]"),
};
