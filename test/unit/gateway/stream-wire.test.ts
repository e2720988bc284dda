import net from "node:net";
import { describe, expect, test } from "vitest";
import { transportKinds } from "../../support/http/gateway.ts";
import { post, sendRawHttp } from "../../support/http/raw.ts";
import { CONVERSATION, startChatServices } from "../../support/http/stub-services.ts";
import { until, untilStill } from "../../support/until.ts";

const DONE = "data: [DONE]\n\n";
const PIECES = 400;
const CHUNK = "x".repeat(64 * 1024);

describe.each(transportKinds)("SSE stream as bytes %s", (way) => {
  /** A client that requests the stream and reads nothing until it is resumed. */
  async function askAndPause() {
    let made = 0;
    const edge = await startChatServices(way, async function* () {
      for (; made < PIECES; made++) yield { chunk: CHUNK };
    });
    const socket = net.connect(edge.port, "127.0.0.1").pause();
    socket.write(post("/ai/stream", CONVERSATION));
    await untilStill("the service to be paused", () => made);
    const seen = { bytes: 0, tail: "" };
    socket.on("data", (data) => {
      seen.bytes += data.length;
      seen.tail = (seen.tail + data.toString("latin1")).slice(-200);
    });
    return { edge, socket, seen, made: () => made };
  }

  test("pauses for a slow client with bounded memory, and resumes when the client reads", async () => {
    const { socket, seen, made } = await askAndPause();
    expect(made()).toBeLessThan(PIECES / 2);
    socket.resume();
    await until("the end", () => seen.tail.includes("[DONE]"));
    expect(made()).toBe(PIECES);
    expect(seen.bytes).toBeGreaterThan(PIECES * CHUNK.length);
    socket.destroy();
  });

  test("reports a shutdown to a slow client, too", async () => {
    const { edge, socket, seen, made } = await askAndPause();
    const drained = edge.gateway.drain();
    socket.resume();
    await drained;
    await until("the end", () => socket.destroyed);
    expect(seen.tail).toMatch(
      /data: \{"error":"The service is shutting down[^"]*","code":"UNAVAILABLE"\}\n\n\s.*data: \[DONE\]/s,
    );
    expect(made()).toBeLessThan(PIECES);
  });

  test.each([
    {
      version: "1.1",
      cut: (event: string) => `${Buffer.byteLength(event).toString(16)}\r\n${event}\r\n`,
      end: "0\r\n\r\n",
    },
    { version: "1.0", cut: (event: string) => event, end: "" },
  ])(
    "has the framing of HTTP/$version, and closes the connection if the client requests it",
    async ({ version, cut, end }) => {
      const edge = await startChatServices(way, async function* () {
        yield { chunk: "zwölf €" };
      });
      const request = post("/ai/stream", CONVERSATION, {
        version,
        headers: "Connection: close\r\n",
      });
      const text = await sendRawHttp(edge.port, request);
      expect(text).toMatch(/^connection: close\r$/im);
      expect(
        text.endsWith(`\r\n\r\n${cut('data: {"chunk":"zwölf €"}\n\n')}${cut(DONE)}${end}`),
      ).toBe(true);
    },
  );

  test("leaves no listeners on a connection with many streams", async () => {
    const edge = await startChatServices(way, async function* () {
      yield { chunk: "a" };
    });
    const warnings: Error[] = [];
    const warned = (warning: Error) => void warnings.push(warning);
    process.on("warning", warned);
    for (let i = 1; i <= 15; i++) await (await edge.ask()).text(); // Node warns at the eleventh listener
    process.off("warning", warned);
    expect(warnings).toEqual([]);
    expect(edge.logs.filter((line) => (line.level as number) >= 40)).toEqual([]);
  });
});
