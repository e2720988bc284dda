import net from "node:net";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { AIService } from "../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import { until } from "../until.ts";
import { type Started, start } from "./harness.ts";
import { CONVERSATION, JSON_TYPE } from "./listeners.ts";
import { post } from "./wire.ts";

const KIB = 1024;
/** Room for two of three, by the powers of two that it is given out in. */
const LARGE = 100 * KIB;

describe("large bodies", () => {
  let edge: Started;
  let heard = 0;
  beforeAll(async () => {
    const chat = () => {
      heard++;
      return { content: "" };
    };
    edge = await start((router) => router.service(AIService, { chat }), { arrivingBytes: 256 * KIB });
  });
  afterAll(() => edge.close());

  const conversation = (bytes: number) => ({ ...CONVERSATION, pad: "x".repeat(bytes) });
  const ask = (bytes: number) => edge.send("POST", "/ai/chat", conversation(bytes), JSON_TYPE);

  /** Sends all of a request but its last byte. */
  async function begin(): Promise<net.Socket> {
    const request = post("/ai/chat", conversation(LARGE));
    const socket = net.connect(edge.port, "127.0.0.1");
    await new Promise<void>((resolve) => socket.write(request.slice(0, -1), () => resolve()));
    return socket;
  }

  test("have a bound in all while they arrive, and small ones don't wait for them", async () => {
    const begun = [await begin(), await begin()];
    const refused = await until("no room for a third", async () => {
      const answer = await ask(LARGE);
      return answer.status === 200 ? undefined : answer;
    });
    expect(refused).toMatchObject({ status: 503, body: { code: "UNAVAILABLE" } });
    expect(refused.headers.get("retry-after")).toBe("1");
    expect((await ask(30 * KIB)).status).toBe(200);
    const before = heard;
    begun[0]?.write("}");
    await until("the end of the first", () => heard > before);
    expect((await ask(LARGE)).status).toBe(200);
    begun[1]?.destroy();
    const third = await begin();
    await until("room where a client has gone", async () => (await ask(LARGE)).status === 200);
    third.destroy();
  });

  test("in crumbs are put together", async () => {
    const body = JSON.stringify(conversation(LARGE));
    const socket = net.connect(edge.port, "127.0.0.1");
    const crumbs = [...body].map((letter) => `1\r\n${letter}\r\n`).join("");
    socket.write(
      `POST /ai/chat HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n${crumbs}0\r\n\r\n`,
    );
    const answer = await new Promise<string>((resolve) => socket.once("data", (data) => resolve(String(data))));
    socket.destroy();
    expect(answer).toMatch(/^HTTP\/1\.1 200 /);
  });
});
