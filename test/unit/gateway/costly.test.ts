import { once } from "node:events";
import net from "node:net";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { AIService } from "../../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import { type Started, start } from "../../support/gateway.ts";
import { post } from "../../support/raw-http.ts";
import { CONVERSATION } from "../../support/stub-services.ts";
import { times, until } from "../../support/until.ts";

const FLOOD = 20;
/** Large, and yet small enough for a connection to take it in one piece. */
const REQUEST = post("/ai/chat", { ...CONVERSATION, pad: "x".repeat(40_000) });

describe("large bodies hold up nobody else", () => {
  let edge: Started;
  let flood: net.Socket[];
  let other: net.Socket;
  beforeEach(async () => {
    edge = await start((router) => router.service(AIService, { chat: () => ({ content: "" }) }));
    flood = await Promise.all(times(FLOOD, connect));
    other = await connect();
    await askAnother();
    return () => [other, ...flood].map((socket) => socket.destroy());
  });
  afterEach(() => edge.close());

  async function connect() {
    const socket = net.connect(edge.port, "127.0.0.1");
    await once(socket, "connect");
    return socket.resume();
  }
  async function askAnother() {
    other.write("GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n");
    await once(other, "data");
  }
  /** How many of the flood are answered before somebody else, who asks after them. */
  async function answeredBefore(begin: (socket: net.Socket) => void) {
    const logged = edge.logs.length;
    for (const socket of flood) begin(socket);
    const answered = () => edge.logs.slice(logged).map(({ route }) => route);
    await Promise.all([askAnother(), until("the flood to be answered", () => answered().length > FLOOD)]);
    return answered().indexOf("/health/live");
  }

  test("when all of them arrive at once", async () => {
    const before = await answeredBefore((socket) => socket.write(REQUEST));
    expect(before).toBeLessThan(FLOOD / 2);
  });

  test("when all that is missing of them arrives at once", async () => {
    for (const socket of flood) socket.write(REQUEST.slice(0, -1));
    for (let i = 0; i < 2 * FLOOD; i++) await askAnother();
    const before = await answeredBefore((socket) => socket.write("}"));
    expect(before).toBeLessThan(FLOOD / 2);
  });
});
