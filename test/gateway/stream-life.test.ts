import net from "node:net";
import type { HandlerContext } from "@connectrpc/connect";
import { Code } from "@connectrpc/connect";
import { afterEach, describe, expect, test } from "vitest";
import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { until } from "../until.ts";
import { failWith, ways } from "./harness.ts";
import type { Chatting } from "./listeners.ts";
import { CONVERSATION, startChatting } from "./listeners.ts";

const DONE = "data: [DONE]\n\n";
const never = new Promise<never>(() => {});
const aborted = (signal: AbortSignal) => new Promise((resolve) => signal.addEventListener("abort", resolve));

describe.each(ways)("the life of an event stream %s", (way) => {
  let edge: Chatting;
  afterEach(() => edge.close());

  test("sends no header before the first message, and each piece as it comes", async () => {
    const gates = [Promise.withResolvers<void>(), Promise.withResolvers<void>()] as const;
    edge = await startChatting(way, async function* () {
      await gates[0].promise;
      yield { chunk: "first" };
      await gates[1].promise;
      yield { chunk: "second" };
    });
    const asked = edge.ask();
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
    edge = await startChatting(
      way,
      async function* () {
        await gate.promise;
        yield { chunk: "late" };
        throw failWith(Reason.UNAUTHENTICATED, Code.Unauthenticated, "The session has ended.");
      },
      { keepAliveMs: 20 },
    );
    const answer = await edge.ask();
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
      edge = await startChatting(way, async function* (given) {
        context = given;
        try {
          if (when === "in mid-stream") yield { chunk: "a" };
          await aborted(given.signal);
        } finally {
          isClosed = true;
        }
      });
      const client = new AbortController();
      const asked = edge.ask(client.signal);
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
    edge = await startChatting(way, async function* () {
      for (; made < PIECES; made++) yield { chunk };
    });
    const socket = net.connect(edge.port, "127.0.0.1");
    socket.pause();
    const text = JSON.stringify(CONVERSATION);
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
    edge = await startChatting(way, async function* () {
      yield { chunk: "a" };
      await never;
    });
    const answer = await edge.ask();
    const reader = answer.body?.pipeThrough(new TextDecoderStream()).getReader();
    let text = (await reader?.read())?.value ?? "";
    const drained = edge.gateway.drain();
    for (let step = await reader?.read(); step && !step.done; step = await reader?.read()) text += step.value;
    expect(text).toMatch(
      /^data: \{"chunk":"a"\}\n\ndata: \{"error":"The service is shutting down[^"]*"\}\n\ndata: \[DONE\]\n\n$/,
    );
    await drained;
  });

  test.runIf(way === "in process")("tells a reader who lags behind of the shutdown as well", async () => {
    let made = 0;
    edge = await startChatting(way, async function* () {
      for (; made < 400; made++) yield { chunk: "x".repeat(64 * 1024) };
    });
    const socket = net.connect(edge.port, "127.0.0.1").pause();
    const text = JSON.stringify(CONVERSATION);
    const head = `Host: x\r\nContent-Type: application/json\r\nContent-Length: ${text.length}`;
    socket.write(`POST /ai/stream HTTP/1.1\r\n${head}\r\n\r\n${text}`);
    for (let before = -1; made === 0 || before !== made; ) {
      before = made;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    const drained = edge.gateway.drain();
    let tail = "";
    socket.on("data", (data) => {
      tail = (tail + data.toString("latin1")).slice(-200);
    });
    socket.resume();
    await drained;
    await until("the end", () => socket.destroyed);
    expect(tail).toMatch(/data: \{"error":"The service is shutting down[^"]*"\}\n\n\s.*data: \[DONE\]/s);
    expect(made).toBeLessThan(400);
  });

  test.each([
    ["1.1", (event: string) => `${Buffer.byteLength(event).toString(16)}\r\n${event}\r\n`, "0\r\n\r\n"],
    ["1.0", (event: string) => event, ""],
  ])("comes to clients of HTTP/%s as that version cuts it", async (version, cut, end) => {
    edge = await startChatting(way, async function* () {
      yield { chunk: "zwölf €" };
    });
    const socket = net.connect(edge.port, "127.0.0.1").setEncoding("utf8");
    let text = "";
    socket.on("data", (data) => {
      text += data;
    });
    const json = JSON.stringify(CONVERSATION);
    const head = `Host: x\r\nContent-Type: application/json\r\nContent-Length: ${json.length}`;
    socket.write(`POST /ai/stream HTTP/${version}\r\n${head}\r\n\r\n${json}`);
    const body = `${cut('data: {"chunk":"zwölf €"}\n\n')}${cut(DONE)}${end}`;
    await until("the end", () => text.endsWith(`\r\n\r\n${body}`));
    socket.destroy();
  });

  test("closes the connection where the client asks for that", async () => {
    edge = await startChatting(way, async function* () {
      yield { chunk: "a" };
    });
    const socket = net.connect(edge.port, "127.0.0.1");
    let text = "";
    socket.setEncoding("utf8").on("data", (part: string) => {
      text += part;
    });
    const json = JSON.stringify(CONVERSATION);
    const head = `Host: x\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: ${json.length}`;
    socket.write(`POST /ai/stream HTTP/1.1\r\n${head}\r\n\r\n${json}`);
    await new Promise((resolve) => socket.once("close", resolve));
    expect(text).toMatch(/^connection: close\r$/im);
    expect(text).toContain("[DONE]");
  });

  test("leaves nothing behind: neither a call nor a listener", async () => {
    edge = await startChatting(way, async function* () {
      yield { chunk: "a" };
    });
    const agent = new net.Socket();
    agent.connect(edge.port, "127.0.0.1");
    let text = "";
    agent.on("data", (data) => {
      text += data;
    });
    const json = JSON.stringify(CONVERSATION);
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
