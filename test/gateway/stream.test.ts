import net from "node:net";
import type { HandlerContext } from "@connectrpc/connect";
import { Code } from "@connectrpc/connect";
import { afterEach, describe, expect, test } from "vitest";
import { AIService } from "../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { until } from "../until.ts";
import type { Settings, Started } from "./harness.ts";
import { failWith, start, ways } from "./harness.ts";

type Chat = (context: HandlerContext) => AsyncIterable<{ chunk: string }>;

const body = { provider: "p", messages: [{ role: "user", content: "Hi" }] };
const DONE = "data: [DONE]\n\n";
const never = new Promise<never>(() => {});
const aborted = (signal: AbortSignal) => new Promise((resolve) => signal.addEventListener("abort", resolve));

describe.each(ways)("POST /ai/stream %s", (way) => {
  let edge: Started;
  const open = async (chat: Chat, settings: Settings = {}) => {
    const routes: Parameters<typeof start>[0] = (router) =>
      router.service(AIService, { streamChat: (_request, context) => chat(context) });
    edge = await start(routes, { way, ...settings });
  };
  const ask = (signal: AbortSignal | null = null) =>
    fetch(`${edge.url}/ai/stream`, {
      method: "POST",
      headers: { "content-type": "application/json", "x-request-id": "id-1" },
      body: JSON.stringify(body),
      signal,
    });
  afterEach(() => edge.close());

  test("answers each message as one data line, then [DONE], under the headers of the specification", async () => {
    await open(async function* (context) {
      context.responseHeader.set("ratelimit-remaining", "99");
      yield { chunk: 'line\nbreak "quoted" 🗝️\u2028' };
      yield { chunk: "two" };
    });
    const answer = await ask();
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

  test("of a reply without text is [DONE] alone", async () => {
    await open(async function* () {});
    expect(await (await ask()).text()).toBe(DONE);
  });

  test.each([
    ["VALIDATION_FAILED", Reason.VALIDATION_FAILED, Code.InvalidArgument, 400],
    ["UNAUTHENTICATED", Reason.UNAUTHENTICATED, Code.Unauthenticated, 401],
    ["FORBIDDEN", Reason.FORBIDDEN, Code.PermissionDenied, 403],
    ["RATE_LIMITED", Reason.RATE_LIMITED, Code.ResourceExhausted, 429],
    ["INTERNAL", Reason.UNSPECIFIED, Code.Internal, 500],
    ["UNAVAILABLE", Reason.UNAVAILABLE, Code.Unavailable, 503],
  ])("that fails at once with %s answers its status", async (word, reason, code, status) => {
    // biome-ignore lint/correctness/useYield: it fails before
    await open(async function* () {
      throw failWith(reason, code, "No.", { retryAfterSeconds: 7 });
    });
    const answer = await ask();
    expect(answer.status).toBe(status);
    expect(answer.headers.get("content-type")).toBe("application/json; charset=utf-8");
    expect(await answer.json()).toMatchObject({ statusCode: status, code: word });
  });

  test.each([
    ["a provider that is not configured", Reason.PROVIDER_NOT_CONFIGURED, Code.FailedPrecondition],
    ["a provider's failure", Reason.PROVIDER_ERROR, Code.Internal],
  ])("tells %s as an event, at once as well as later", async (_what, reason, code) => {
    for (const before of [[], ["a"]]) {
      await open(async function* () {
        for (const chunk of before) yield { chunk };
        throw failWith(reason, code, "It says no.");
      });
      const answer = await ask();
      expect(answer.status).toBe(200);
      const chunks = before.map((chunk) => `data: {"chunk":"${chunk}"}\n\n`).join("");
      expect(await answer.text()).toBe(`${chunks}data: {"error":"It says no."}\n\n${DONE}`);
      if (before.length === 0) await edge.close();
    }
  });

  test("tells any later failure as an event; a bug is masked and logged", async () => {
    await open(async function* () {
      yield { chunk: "a" };
      throw new Error("password=hunter2");
    });
    const text = await (await ask()).text();
    expect(text).toMatch(
      /^data: \{"chunk":"a"\}\n\ndata: \{"error":"Something went wrong[^"]*"\}\n\ndata: \[DONE\]\n\n$/,
    );
    expect(edge.logs.filter((line) => line.level === 50)).toMatchObject([{ requestId: "id-1" }]);
  });

  test("is refused before it starts with a body that is not valid", async () => {
    await open(async function* () {});
    const answer = await edge.send("POST", "/ai/stream", { ...body, temperature: "hot" });
    expect(answer).toMatchObject({ status: 400, body: { violations: [{ field: "temperature" }] } });
  });

  test("sends no header before the first message, and each piece as it comes", async () => {
    const gates = [Promise.withResolvers<void>(), Promise.withResolvers<void>()] as const;
    await open(async function* () {
      await gates[0].promise;
      yield { chunk: "first" };
      await gates[1].promise;
      yield { chunk: "second" };
    });
    const asked = ask();
    const early = await Promise.race([asked, new Promise((resolve) => setTimeout(resolve, 100, "silence"))]);
    expect(early).toBe("silence");
    gates[0].resolve();
    const reader = (await asked).body?.pipeThrough(new TextDecoderStream()).getReader();
    expect((await reader?.read())?.value).toBe('data: {"chunk":"first"}\n\n');
    gates[1].resolve();
    let rest = "";
    for (let step = await reader?.read(); step && !step.done; step = await reader?.read()) rest += step.value;
    expect(rest).toBe(`data: {"chunk":"second"}\n\n${DONE}`);
  });

  test("bridges silence by comments, before the first message as well", async () => {
    const gate = Promise.withResolvers<void>();
    await open(
      async function* () {
        await gate.promise;
        yield { chunk: "late" };
        throw failWith(Reason.UNAUTHENTICATED, Code.Unauthenticated, "The session has ended.");
      },
      { keepAliveMs: 20 },
    );
    const answer = await ask();
    expect(answer.status).toBe(200);
    const reader = answer.body?.pipeThrough(new TextDecoderStream()).getReader();
    let text = (await reader?.read())?.value ?? "";
    expect(text).toMatch(/^(: keep-alive\n\n)+$/);
    gate.resolve();
    for (let step = await reader?.read(); step && !step.done; step = await reader?.read()) text += step.value;
    expect(text.replaceAll(": keep-alive\n\n", "")).toBe(
      `data: {"chunk":"late"}\n\ndata: {"error":"The session has ended."}\n\n${DONE}`,
    );
  });

  test.each(["before the first message", "in mid-stream"])(
    "frees the call at once when its client leaves %s",
    async (when) => {
      let context: HandlerContext | undefined;
      let isClosed = false;
      await open(async function* (given) {
        context = given;
        try {
          if (when === "in mid-stream") yield { chunk: "a" };
          await aborted(given.signal);
        } finally {
          isClosed = true;
        }
      });
      const client = new AbortController();
      const asked = ask(client.signal);
      asked.catch(() => {});
      if (when === "in mid-stream") await (await asked).body?.getReader().read();
      await until("the handler", () => context);
      client.abort();
      await until("the abort", () => context?.signal.aborted && isClosed);
      await until("the log line", () => edge.logs.some((l) => l.clientGone === true && l.route === "/ai/stream"));
      expect(edge.logs.filter((line) => (line.level as number) >= 40)).toEqual([]);
    },
  );

  test("slows down for a slow reader, with bounded memory, and goes on when it reads", async () => {
    const PIECES = 400;
    const chunk = "x".repeat(64 * 1024);
    let made = 0;
    await open(async function* () {
      for (; made < PIECES; made++) yield { chunk };
    });
    const socket = net.connect(edge.port, "127.0.0.1");
    socket.pause();
    const text = JSON.stringify(body);
    const head = `POST /ai/stream HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: ${text.length}\r\n\r\n`;
    socket.write(head + text);
    await until("the first piece", () => made > 0);
    for (let before = -1; before !== made; ) {
      before = made;
      await new Promise((resolve) => setTimeout(resolve, 150));
    }
    expect(made).toBeLessThan(PIECES / 2);
    let received = 0;
    let tail = "";
    socket.on("data", (data) => {
      received += data.length;
      tail = (tail + data.toString("latin1")).slice(-64);
    });
    socket.resume();
    await until("the end", () => tail.includes("[DONE]"));
    expect(made).toBe(PIECES);
    expect(received).toBeGreaterThan(PIECES * chunk.length);
    socket.destroy();
  });

  test("ends by an error event and [DONE] when the service shuts down", async () => {
    await open(async function* () {
      yield { chunk: "a" };
      await never;
    });
    const answer = await ask();
    const reader = answer.body?.pipeThrough(new TextDecoderStream()).getReader();
    let text = (await reader?.read())?.value ?? "";
    const drained = edge.gateway.drain();
    for (let step = await reader?.read(); step && !step.done; step = await reader?.read()) text += step.value;
    expect(text).toMatch(
      /^data: \{"chunk":"a"\}\n\ndata: \{"error":"The service is shutting down[^"]*"\}\n\ndata: \[DONE\]\n\n$/,
    );
    await drained;
  });

  test("leaves nothing behind: neither a call nor a listener", async () => {
    await open(async function* () {
      yield { chunk: "a" };
    });
    const agent = new net.Socket();
    agent.connect(edge.port, "127.0.0.1");
    let text = "";
    agent.on("data", (data) => {
      text += data;
    });
    const json = JSON.stringify(body);
    for (let i = 1; i <= 15; i++) {
      agent.write(
        `POST /ai/stream HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: ${json.length}\r\n\r\n${json}`,
      );
      await until("the answer", () => text.split("[DONE]").length > i);
    }
    agent.destroy();
    expect(edge.logs.filter((line) => (line.level as number) >= 40)).toEqual([]);
  });
});
