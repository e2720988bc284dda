import { expect } from "vitest";

/** Reads the body of an event stream to the letter: chunks that say something, at most one error, one closing mark. */
export function eventsIn(body: string): { text: string; error: string | undefined } {
  expect(body.endsWith("data: [DONE]\n\n")).toBe(true);
  const events = body
    .replace(/^:.*\n\n/gm, "")
    .split("\n\n")
    .slice(0, -2);
  let text = "";
  let error: string | undefined;
  for (const event of events) {
    expect(error).toBeUndefined();
    expect(event).toMatch(/^data: \{.*\}$/);
    const told = JSON.parse(event.slice("data: ".length));
    if (Object.hasOwn(told, "error")) error = told.error;
    else expect(told.chunk).toMatch(/./s);
    text += told.chunk ?? "";
  }
  return { text, error };
}
