import { expect } from "vitest";

/**
 * Reads an event stream strictly: chunks that are not empty, at most one error, and one [DONE] at
 * the end.
 */
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
    const data = JSON.parse(event.slice("data: ".length));
    if (Object.hasOwn(data, "error")) error = data.error;
    else expect(data.chunk).toMatch(/./s);
    text += data.chunk ?? "";
  }
  return { text, error };
}
