import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { Reason } from "../../../gen/gatehouse/platform/v1/failure_pb.ts";
import { tokensIn } from "../../../scripts/simulators/dialect-encoder.ts";
import { PREFIX } from "../../../scripts/simulators/script.ts";
import { chat, streamChat } from "../../../services/ai/chat.ts";
import { captureLog } from "../../support/log.ts";
import { until } from "../../support/until.ts";
import { type Desk, newCall, openDesk, rowsOf, saying } from "./ai-fixture.ts";

let desk: Desk;
beforeAll(async () => {
  desk = await openDesk();
});
afterAll(() => desk.close());

describe("Chat operation", () => {
  test("reports a provider failure by its kind, and records usage", async () => {
    const { lines, log } = captureLog();
    const call = { ...(await newCall(desk)), log };
    await expect(chat(call, saying("case: bad-key"))).rejects.toMatchObject({
      reason: Reason.PROVIDER_ERROR,
      message: "The AI provider provider-a failed: refused the key.",
    });
    await expect(chat(call, saying("case: reset"))).rejects.toThrow("unreachable");
    const unread = { input_tokens: 0, output_tokens: 0, estimated: true };
    const outcomes = ["refused the key", "unreachable"];
    expect(await rowsOf(desk, call.userId)).toMatchObject(outcomes.map((outcome) => ({ outcome, ...unread })));
    expect(lines.map((line) => JSON.parse(line))).toMatchObject([
      { requestId: "request", detail: "HTTP 401", msg: expect.stringContaining("refused the key") },
      { requestId: "request", detail: "ECONNRESET" },
    ]);
  });

  test("records usage of a client that disconnects", async () => {
    const call = await newCall(desk);
    const before = desk.simulator.requests.length;
    const answer = expect(chat(call, { ...saying("case: silent"), systemPrompt: "Be brief." })).rejects.toThrow();
    await until("the request", () => desk.simulator.requests.length > before);
    call.client.abort();
    await answer;
    expect(await rowsOf(desk, call.userId)).toMatchObject([
      { outcome: "cancelled", input_tokens: tokensIn("case: silentBe brief."), estimated: true },
    ]);
  });
});

describe("StreamChat operation", () => {
  test("has a usage row while it runs, estimated from its text if it breaks off", async () => {
    const call = await newCall(desk);
    const chunks = streamChat(call, saying("case: silent-midway"))[Symbol.asyncIterator]();
    expect((await chunks.next()).value).toEqual({ chunk: PREFIX });
    const outcomes = () => desk.store.fork().execute("select outcome from ai_usage where user_id = ?", [call.userId]);
    await vi.waitFor(async () => expect(await outcomes()).toEqual([{ outcome: "running" }]));
    await chunks.return?.();
    expect(await rowsOf(desk, call.userId)).toMatchObject([
      { outcome: "cancelled", output_tokens: tokensIn(PREFIX), estimated: true, latency_ms: expect.any(Number) },
    ]);
  });

  test("records usage of an unread stream whose client disconnects", async () => {
    const call = await newCall(desk);
    const chunks = streamChat(call, saying("case: endless"))[Symbol.asyncIterator]();
    await chunks.next();
    call.client.abort();
    expect(await rowsOf(desk, call.userId)).toMatchObject([{ outcome: "cancelled" }]);
  });
});

test("Chat and StreamChat operations: each of 200 concurrent calls gets its own text", async () => {
  const call = await newCall(desk);
  const answers = await Promise.all(
    Array.from({ length: 200 }, async (_, index) => {
      const mine = `I am number ${index}.`;
      if (index % 2 === 0) return [mine, (await chat(call, saying(mine))).content] as const;
      let text = "";
      for await (const { chunk } of streamChat(call, saying(mine))) text += chunk;
      return [mine, text] as const;
    }),
  );
  for (const [mine, answer] of answers) expect(answer).toContain(`You said: "${mine}"`);
});
