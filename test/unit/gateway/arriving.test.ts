import { once } from "node:events";
import net from "node:net";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ownTurn } from "../../../gateway/turns.ts";
import { AIService } from "../../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import { openRoom } from "../../../services/process/room.ts";
import { type Routes, type Started, start } from "../../support/gateway.ts";
import { post } from "../../support/raw-http.ts";
import { CONVERSATION, JSON_TYPE } from "../../support/stub-services.ts";
import { workFor } from "../../support/turns.ts";
import { tally, times, until } from "../../support/until.ts";

const KIB = 1024;
const LARGE = 100 * KIB;
/** Room for two of three large bodies, by the powers of two that it is given out in. */
const ROOM = 3_300_000;

describe("large bodies", () => {
  let edge: Started;
  let heard = 0;
  const slow = Promise.withResolvers<void>();
  beforeAll(async () => {
    const chat = async ({ provider }: { provider: string }) => {
      heard++;
      if (provider === "slow") await slow.promise;
      return { content: "" };
    };
    edge = await start((router) => router.service(AIService, { chat }), { room: openRoom(ROOM) });
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

  test("have a bound in all while they arrive: whoever comes takes the room of the one that takes longest", async () => {
    const clients: net.Socket[] = [];
    const answers: string[] = [];
    for (let i = 0; i < 4; i++) {
      const client = await begin();
      clients.push(client.on("data", (part) => answers.push(`${i} ${String(part)}`)));
      expect((await ask(30 * KIB)).status).toBe(200); // after what was sent before; small ones don't wait
    }
    await until("the first two to be given up", () => answers.length === 2);
    expect(answers[0]).toMatch(/^0 HTTP\/1\.1 503 .*\r\nretry-after: 1\r\n.*"code":"UNAVAILABLE"/is);
    expect(answers[1]).toMatch(/^1 HTTP\/1\.1 503 /);
    expect((await ask(LARGE)).status).toBe(200);
    await until("the third to be given up", () => answers.length === 3);
    const before = heard;
    clients[3]?.write("}");
    await until("the end of the last", () => heard > before);
    for (const client of clients) client.destroy();
    expect(await Promise.all([ask(LARGE), ask(LARGE)])).toMatchObject([{ status: 200 }, { status: 200 }]);
  });

  test("are not given up once they have arrived, while they wait for their turn to be read", async () => {
    const before = heard;
    ownTurn().then(() => workFor(300)); // after which everybody else has as much time
    const arrived = [ask(LARGE), ask(LARGE)];
    for (let i = 0; i < 5; i++) expect((await edge.send("GET", "/openapi.json")).status).toBe(200);
    const another = await ask(LARGE);
    expect(await Promise.all(arrived)).toMatchObject([{ status: 200 }, { status: 200 }]);
    expect(heard).toBe(before + (another.status === 200 ? 3 : 2));
  });

  test("keep their room until they are answered, or their clients have gone", async () => {
    const before = heard;
    const body = { ...conversation(LARGE), provider: "slow" };
    const staying = edge.send("POST", "/ai/chat", body);
    const leaving = net.connect(edge.port, "127.0.0.1", () => leaving.write(post("/ai/chat", body)));
    await until("both to be held", () => heard === before + 2);
    expect((await ask(LARGE)).status).toBe(503);
    expect((await ask(30 * KIB)).status).toBe(200);
    leaving.destroy();
    await until("room where a client has gone", async () => (await ask(LARGE)).status === 200);
    slow.resolve();
    expect((await staying).status).toBe(200);
    expect(await Promise.all([ask(LARGE), ask(LARGE)])).toMatchObject([{ status: 200 }, { status: 200 }]);
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

describe("small requests", () => {
  let edge: Started;
  let held = 0;
  beforeAll(async () => {
    const chat = async (_request: unknown, { signal }: { signal: AbortSignal }) => {
      held++;
      await once(signal, "abort");
      held--;
      return {};
    };
    edge = await start((router) => router.service(AIService, { chat }), { room: openRoom(1_000_000) });
  });
  afterAll(() => edge.close());

  test("that wait for providers have a bound in all, and others are answered meanwhile", async () => {
    const clients = times(50, () => net.connect(edge.port, "127.0.0.1"));
    const told = clients.map(async (client) => {
      client.write(post("/ai/chat", CONVERSATION));
      const [answer] = await once(client, "data");
      return String(answer).slice(9, 12);
    });
    const refused = await Promise.race([Promise.all(told), until("most of them", () => held >= 10)]).then(() => told);
    expect(await Promise.race(refused)).toBe("503");
    expect(held).toBeLessThan(20);
    expect((await edge.send("GET", "/openapi.json")).status).toBe(200);
    for (const client of clients) client.destroy();
    await until("nobody", () => held === 0);
  });

  test("that wait in line on one connection have a bound, past which it is cut", async () => {
    const flood = net.connect(edge.port, "127.0.0.1");
    const isCut = once(flood, "close");
    flood.on("error", () => {}).write(post("/ai/chat", CONVERSATION));
    await until("the first", () => held === 1);
    flood.write("GET /docs HTTP/1.1\r\nHost: x\r\n\r\n".repeat(100));
    await isCut;
    await until("its call to end", () => held === 0);
    const answers = await Promise.all(times(15, () => edge.send("GET", "/openapi.json")));
    expect(tally(answers, ({ status }) => status)).toEqual({ 200: 15 });
  });
});

test("connections have a bound: whoever comes takes the place of the one that has been silent the longest", async () => {
  const chat = (_request: unknown, { signal }: { signal: AbortSignal }) => once(signal, "abort").then(() => ({}));
  const routes: Routes = (router) => router.service(AIService, { chat });
  const edge = await start(routes, { room: { ...openRoom(), connections: 3 } });
  const connect = (sent: string) => {
    const socket = net.connect(edge.port, "127.0.0.1").on("error", () => {});
    socket.write(sent);
    return { socket, isCut: once(socket, "close") };
  };
  const busy = connect(post("/ai/chat", CONVERSATION));
  const idle = connect("GET /docs HTTP/1.1\r\nHost: x\r\n\r\n");
  await once(idle.socket, "data");
  const begun = connect("GET /docs HTTP/1.1\r\nHost: x\r\nX-Late: ");
  expect((await edge.send("GET", "/docs")).status).toBe(200);
  await idle.isCut;
  expect((await edge.send("GET", "/docs", undefined, { connection: "close" })).status).toBe(200);
  const others = times(2, () => connect(post("/ai/chat", CONVERSATION)));
  await begun.isCut;
  expect(busy.socket.closed).toBe(false);
  for (const { socket } of [busy, ...others]) socket.destroy();
  await edge.close();
});

test("a connection is not silent while it waits for an answer, though it has had one since", async () => {
  let isHeld = false;
  const chat = (_request: unknown, { signal }: { signal: AbortSignal }) => {
    isHeld = true;
    return once(signal, "abort").then(() => ({}));
  };
  const routes: Routes = (router) => router.service(AIService, { chat });
  const edge = await start(routes, { room: { ...openRoom(), connections: 2 } });
  const busy = net.connect(edge.port, "127.0.0.1");
  busy.resume().write(`GET /docs HTTP/1.1\r\nHost: x\r\n\r\n${post("/ai/chat", CONVERSATION)}`);
  await until("the second of its requests", () => isHeld);
  const silent = net.connect(edge.port, "127.0.0.1");
  const isCut = once(silent, "close");
  await once(silent, "connect");
  expect((await edge.send("GET", "/docs")).status).toBe(200);
  await isCut;
  expect(busy.closed).toBe(false);
  busy.destroy();
  await edge.close();
});
