import { expect, test } from "vitest";
import { verbatim } from "../../../scripts/simulators/malformed-cases.ts";
import { conversationOf, eventsIn } from "../../support/ai/calls.ts";
import { testApp } from "../../support/app.ts";

const app = await testApp();

/** What ends a line for `str.splitlines` of Python. Other readers know some of these. */
const LINE_ENDS = [..."\n\v\f\r\u001c\u001d\u001e\u0085\u2028\u2029"];

test("POST /ai/stream: an event is one line for readers that accept Unicode line ends", async () => {
  const { post } = await app.signIn();
  const text = "a\u2028b\u2029c\u0085d\u000be\u000cf\u001cg\u001eh";
  const choice = { index: 0, delta: { content: text }, finish_reason: "stop" };
  const events = [{ data: JSON.stringify({ choices: [choice] }) }, { data: "[DONE]" }];
  const answer = await post(
    "/ai/stream",
    conversationOf(`case: ${verbatim({ events, whole: {} })}`, "provider-d"),
  );
  expect(eventsIn(answer.text).text).toBe(text);
  const onUnix = LINE_ENDS.reduce((lines, end) => lines.replaceAll(end, "\n"), answer.text);
  for (const line of onUnix.split("\n")) expect(line).toMatch(/^(data: (\[DONE\]|\{.*\}))?$/);
});
