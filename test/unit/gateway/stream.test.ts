import { Code } from "@connectrpc/connect";
import { afterEach, describe, expect, test } from "vitest";
import { Reason } from "../../../gen/gatehouse/platform/v1/failure_pb.ts";
import { failWith, transportKinds } from "../../support/gateway.ts";
import { type ChatServices, startChatServices } from "../../support/stub-services.ts";

const DONE = "data: [DONE]\n\n";

describe.each(transportKinds)("POST /ai/stream %s", (way) => {
  let edge: ChatServices;
  afterEach(() => edge.close());

  test("sends each message as one data line, then [DONE], with the specified headers", async () => {
    edge = await startChatServices(way, async function* (context) {
      context.responseHeader.set("ratelimit-remaining", "99");
      yield { chunk: 'line\nbreak "quoted" 🗝️\u2028' };
      yield { chunk: "two" };
    });
    const answer = await edge.ask();
    expect(answer.status).toBe(200);
    expect(Object.fromEntries(answer.headers)).toMatchObject({
      "content-type": "text/event-stream",
      "cache-control": "no-cache",
      connection: "keep-alive",
      "x-accel-buffering": "no",
      "x-request-id": "id-1",
      "ratelimit-remaining": "99",
      "x-content-type-options": "nosniff",
    });
    const first = `data: ${JSON.stringify({ chunk: 'line\nbreak "quoted" 🗝️\u2028' })}\n\n`;
    expect(await answer.text()).toBe(`${first}data: {"chunk":"two"}\n\n${DONE}`);
  });

  test.each([
    ["INTERNAL", Reason.UNSPECIFIED, Code.Internal, 500],
    ["UNAVAILABLE", Reason.UNAVAILABLE, Code.Unavailable, 503],
  ])("returns the status of %s before the first message", async (word, reason, code, status) => {
    // biome-ignore lint/correctness/useYield: it fails before
    edge = await startChatServices(way, async function* () {
      throw failWith(reason, code, "No.", { retryAfterSeconds: 7 });
    });
    const answer = await edge.ask();
    expect(answer.status).toBe(status);
    expect(answer.headers.get("content-type")).toBe("application/json; charset=utf-8");
    expect(await answer.json()).toMatchObject({ statusCode: status, code: word });
  });

  test("sends a later bug as a masked error event, and logs it", async () => {
    edge = await startChatServices(way, async function* () {
      yield { chunk: "a" };
      throw new Error("password=hunter2");
    });
    const text = await (await edge.ask()).text();
    expect(text).toMatch(
      /^data: \{"chunk":"a"\}\n\ndata: \{"error":"Something went wrong[^"]*"\}\n\ndata: \[DONE\]\n\n$/,
    );
    expect(edge.logs.filter((line) => line.level === 50)).toMatchObject([{ requestId: "id-1" }]);
  });
});
