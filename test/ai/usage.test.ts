import { afterAll, beforeAll, expect, test } from "vitest";
import { openAi } from "../../services/ai/ai.ts";
import { chat } from "../../services/ai/chat.ts";
import { listUsage } from "../../services/ai/list-usage.ts";
import { streamChat } from "../../services/ai/stream-chat.ts";
import type { Store } from "../../services/store/orm.ts";
import { REPLY } from "../fakes/providers/play.ts";
import { tokensIn } from "../fakes/providers/speaker.ts";
import { clock, type Desk, log, newCall, openDesk, rowsOf, saying } from "./desk.ts";

let desk: Desk;
beforeAll(async () => {
  desk = await openDesk();
});
afterAll(() => desk.close());

test("usage is summed up by day, user, provider and model", async () => {
  const call = await newCall(desk);
  await chat(call, saying("case: plain"));
  await chat(call, saying("case: plain"));
  await chat(call, saying("case: no-usage"));
  const line = {
    day: "2026-11-21",
    userId: call.userId,
    provider: "provider-a",
    model: "model-a-1",
    calls: 3,
    inputTokens: 3 + 3 + tokensIn("case: no-usage"),
    outputTokens: 3 * tokensIn(REPLY),
    estimatedCalls: 1,
  };
  expect(await listUsage({ em: desk.store.fork(), clock, ai: desk.ai }, { userId: call.userId })).toEqual([line]);
  expect(await listUsage({ em: desk.store.fork(), clock, ai: desk.ai }, {})).toContainEqual(line);
});

test("usage of an account erased meanwhile is kept without it", async () => {
  const call = await newCall(desk);
  const chunks = streamChat(call, saying("case: silent-midway"));
  await chunks.next();
  await desk.store.fork().execute("delete from users where id = ?", [call.userId]);
  const before = await listUsage({ em: desk.store.fork(), clock, ai: desk.ai }, {});
  await chunks.return(undefined);
  const nobodys = (lines: typeof before) =>
    lines.filter(({ userId }) => userId === undefined).reduce((sum, { calls }) => sum + calls, 0);
  expect(nobodys(await listUsage({ em: desk.store.fork(), clock, ai: desk.ai }, {}))).toBe(nobodys(before));
  expect(nobodys(before)).toBeGreaterThan(0);
});

test("a database that is away delays rows and loses none", async () => {
  const call = await newCall(desk);
  let away = true;
  const query: Store["query"] = (statement, values) =>
    away ? Promise.reject(new Error("away")) : desk.store.query(statement, values);
  const shaky = openAi(
    { ai: { catalogue: undefined, variables: {}, firstByteMs: 1, idleMs: 1, totalMs: 1, retries: 0 } },
    { query },
    clock,
    log,
  );
  shaky.usage
    .start({ userId: call.userId, provider: "p", model: "m", inputCharacters: 8 }, call.signal)
    .settle("completed");
  await shaky.usage.flush();
  expect(await rowsOf(desk, call.userId)).toEqual([]);
  away = false;
  await shaky.close();
  expect(await rowsOf(desk, call.userId)).toMatchObject([{ outcome: "completed", input_tokens: 2 }]);
});
