import { expect, test } from "vitest";
import { EventSplitter } from "../../../services/ai/providers/event-splitter.ts";
import { times } from "../../support/tally.ts";

const EVENTS = [
  "event: a\ndata: {}\n\n",
  "data: 1\r\ndata: 2\r\n\r\n",
  ": a comment\n\n",
  "data: x\n\r\n",
  "\ndata: after two blank lines\n\n",
  "data: \r\r\n\n",
];
const STREAM = Buffer.from(`${EVENTS.join("")}data: half`);

const split = (parts: Buffer[]) => {
  const splitter = new EventSplitter();
  const events = parts.flatMap((part) => splitter.push(part)).map(String);
  return { events, heldLength: splitter.heldLength, rest: String(splitter.takeRest()) };
};
const whole = { events: EVENTS, heldLength: 10, rest: "data: half" };

test("Event splitter: events end with a blank line, whatever the line endings", () => {
  expect(split([STREAM])).toEqual(whole);
});

test("Event splitter: parts that are split anywhere give the same events", () => {
  for (let at = 0; at <= STREAM.length; at++)
    expect(split([STREAM.subarray(0, at), STREAM.subarray(at)]), `cut at ${at}`).toEqual(whole);
  for (const size of [1, 2, 3, 5]) {
    const parts = times(Math.ceil(STREAM.length / size), (i) =>
      STREAM.subarray(i * size, (i + 1) * size),
    );
    expect(split(parts), `parts of ${size}`).toEqual(whole);
  }
});

test("Event splitter: an event of 16 MB in small parts takes no quadratic time", () => {
  const part = Buffer.alloc(1_000, "x");
  const before = process.cpuUsage();
  const splitter = new EventSplitter();
  for (let i = 0; i < 16_000; i++) expect(splitter.push(part).length).toBe(0);
  const [event] = splitter.push(Buffer.from("\n\n"));
  expect(event?.length).toBe(16_000_002);
  const { user, system } = process.cpuUsage(before);
  expect((user + system) / 1e6).toBeLessThan(5); // joined anew with each part, 128 GB are copied
});

test("Event splitter: many small events with CRLF in one part take no quadratic time", () => {
  const events = Buffer.from("data: 1\r\n\r\n".repeat(500_000));
  const before = process.cpuUsage();
  expect(new EventSplitter().push(events)).toHaveLength(500_000);
  const { user, system } = process.cpuUsage(before);
  expect((user + system) / 1e6).toBeLessThan(5);
});
