import { once } from "node:events";
import http2 from "node:http2";
import { connect } from "node:net";
import { text } from "node:stream/consumers";
import { type ConnectRouter, createClient } from "@connectrpc/connect";
import { afterAll, describe, expect, onTestFinished, test } from "vitest";
import { createInternalTransport } from "../../gateway/transport/internal.ts";
import { AuthService } from "../../gen/gatehouse/account/v1/auth_service_pb.ts";
import { createAdmission } from "../../services/platform/gate/admission.ts";
import { listenInternal } from "../../services/servers/internal-server.ts";
import { startSuiteApp } from "../support/app.ts";
import { headerBlock, opening, resetRequest } from "../support/attacks/raw-http2.ts";
import { unknownKeyToken } from "../support/attacks/unknown-key.ts";
import { CHAT, framed, head, LOGIN, PROFILE, REFLECTION, STREAM, send } from "../support/grpc.ts";
import { bearer, sendHttp } from "../support/http/client.ts";
import { SECRET } from "../support/http/gateway.ts";
import { forTest } from "../support/suites.ts";
import { tally, times } from "../support/tally.ts";
import { until } from "../support/until.ts";

/** The smallest shares: 32 requests and twice as many open calls of an address. */
const BUDGET_BYTES = 24 * 1024 * 1024;
const OPEN_CALLS = 64;
const STRANGER_STREAMS = 32;
const PROBES = 64;

const admission = createAdmission({ budgetBytes: BUDGET_BYTES });
const app = await startSuiteApp({
  env: { RATE_LIMITS: "off", TRUST_PROXY: "127.0.0.1" },
  admission,
});
const { NGHTTP2_ENHANCE_YOUR_CALM: ENHANCE_YOUR_CALM, NGHTTP2_NO_ERROR: NO_ERROR } =
  http2.constants;
const HEALTH = "/grpc.health.v1.Health/Check";

let addresses = 0;
/** An address of this machine that no other test has, and that is no proxy's. */
const nextAddress = () => `127.0.77.${++addresses}`;

/** Opens a gRPC connection from an address, which ends with the test. */
async function connectGrpc(localAddress: string) {
  const port = Number(new URL(app.grpcUrl).port);
  const createConnection = () => connect({ port, host: "127.0.0.1", localAddress });
  const session = http2.connect(app.grpcUrl, { createConnection }).on("error", () => {});
  onTestFinished(() => session.destroy());
  const goaway = new Promise<number>((resolve) => session.once("goaway", resolve));
  await once(session, "remoteSettings");
  return { session, goaway };
}

/** Opens a call and sends one byte of its body. */
function openHalf(session: http2.ClientHttp2Session, path: string, headers = {}) {
  const stream = session.request(head(path, headers)).on("error", () => {});
  stream.resume().write("\0");
  return stream;
}

/** Opens as many calls as an address may have, over so many connections as they need. */
async function useUp(address: string, path: string, count = OPEN_CALLS): Promise<void> {
  for (let i = 0; i < count; i += STRANGER_STREAMS) {
    const { session } = await connectGrpc(address);
    for (const _ of times(STRANGER_STREAMS, String)) openHalf(session, path);
    await new Promise((resolve) => session.ping(resolve)); // the server has read them
  }
}

/** Whether an address is served, on its own connection. */
async function isServed(address: string, path = LOGIN): Promise<boolean> {
  const { session } = await connectGrpc(address);
  const answer = await send(session, head(path), framed(new Uint8Array())).catch(() => undefined);
  return answer?.trailers["grpc-status"] !== undefined || answer?.head["grpc-status"] !== undefined;
}

const maxStreams = ({ remoteSettings }: http2.ClientHttp2Session) =>
  remoteSettings.maxConcurrentStreams;
const untilStreams = (session: http2.ClientHttp2Session, count: number) =>
  until(`${count} streams`, () => maxStreams(session) === count);

describe("gRPC port: the concurrent streams of a connection", () => {
  test("are 32 without a valid access token, and 250 from the first call with one", async () => {
    const { session } = await connectGrpc(nextAddress());
    expect(maxStreams(session)).toBe(STRANGER_STREAMS);
    await send(session, head(PROFILE, bearer("no.valid.token")), framed(new Uint8Array()));
    expect(maxStreams(session)).toBe(STRANGER_STREAMS);
    const { headers } = await app.signIn();
    await send(session, head(PROFILE, headers), framed(new Uint8Array()));
    await untilStreams(session, 250);
  });

  test("are 10,000 from the first call with the gateways' secret", async () => {
    const { session } = await connectGrpc(nextAddress());
    const secret = { "x-gatehouse-secret": app.settings.INTERNAL_SECRET as string };
    await send(session, head(LOGIN, secret), framed(new Uint8Array()));
    await untilStreams(session, 10_000);
  });

  test("are 250 for a trusted proxy", async () => {
    const { session } = await connectGrpc("127.0.0.1");
    await untilStreams(session, 250);
  });
});

describe.each([
  { what: "a public method", path: LOGIN },
  { what: "a protected method", path: CHAT },
  { what: "a stream", path: STREAM },
  { what: "reflection", path: REFLECTION },
])("gRPC port: open calls of $what", ({ path }) => {
  test("count towards their address, whose next call closes the connection", async () => {
    const address = nextAddress();
    await useUp(address, path);
    const { session, goaway } = await connectGrpc(address);
    openHalf(session, path);
    expect(await goaway).toBe(ENHANCE_YOUR_CALM);
    expect(await isServed(nextAddress())).toBe(true);
  });
});

test("gRPC port: an address is served again once its open calls have ended", async () => {
  const address = nextAddress();
  const { session } = await connectGrpc(address);
  const other = await connectGrpc(address);
  for (const each of [session, other.session])
    for (const _ of times(STRANGER_STREAMS, String)) openHalf(each, LOGIN);
  await until("the share to be used up", async () => !(await isServed(address)));
  session.destroy();
  other.session.destroy();
  await until("the share to be free", () => isServed(address));
});

test("gRPC port: health checks have a separate share, which they can use up", async () => {
  const [busy, probing] = [nextAddress(), nextAddress()];
  await useUp(busy, LOGIN);
  expect([await isServed(busy), await isServed(busy, HEALTH)]).toEqual([false, true]);
  await useUp(probing, HEALTH, PROBES);
  expect([await isServed(probing, HEALTH), await isServed(probing)]).toEqual([false, true]);
});

/** Begins calls on its own connection, all in one write, and resets each at once. */
function beginAndReset(localAddress: string, count: number) {
  const { hostname, port } = new URL(app.grpcUrl);
  const socket = connect({ port: Number(port), host: hostname, localAddress });
  onTestFinished(() => void socket.destroy());
  const block = headerBlock({ ":scheme": "http", ":authority": "localhost", ...head(LOGIN) });
  const calls = times(count, (i) => resetRequest(2 * i + 1, block));
  socket.on("error", () => {}).resume();
  socket.write(Buffer.concat([opening(), ...calls]));
  return socket;
}

test("gRPC port: calls that are opened and reset count for one more second", async () => {
  const address = nextAddress();
  const sockets = times(OPEN_CALLS / STRANGER_STREAMS, () =>
    beginAndReset(address, STRANGER_STREAMS),
  );
  await Promise.all(sockets.map((socket) => once(socket, "data"))); // the server has read them
  expect(await isServed(address)).toBe(false);
  await until("the share to be free", () => isServed(address));
});

test("gRPC port: more calls in one write than may be concurrent, all reset, close the connection", async () => {
  const few = beginAndReset(nextAddress(), STRANGER_STREAMS);
  await once(beginAndReset(nextAddress(), STRANGER_STREAMS + 1), "close"); // by the server
  expect(few.closed).toBe(false);
});

test("gRPC port: on a proxy's connection, only the calls of an address that exceeds its share are reset", async () => {
  const { session } = await connectGrpc("127.0.0.1");
  await untilStreams(session, 250);
  const client = { "x-forwarded-for": "203.0.113.77" };
  const streams = times(OPEN_CALLS + 5, () => openHalf(session, LOGIN, client));
  const last = streams.at(-1) as http2.ClientHttp2Stream;
  await new Promise((resolve) => last.once("close", resolve));
  expect(last.rstCode).toBe(ENHANCE_YOUR_CALM);
  const other = { "x-forwarded-for": "203.0.113.78" };
  const { trailers, head: first } = await send(
    session,
    head(LOGIN, other),
    framed(new Uint8Array()),
  );
  expect(trailers["grpc-status"] ?? first["grpc-status"]).toBeDefined();
});

test("gRPC port: calls of users who share an address do not use up its share", async () => {
  const address = nextAddress();
  for (const { headers } of await Promise.all(times(3, () => app.signIn()))) {
    const { session } = await connectGrpc(address);
    for (const _ of times(30, String)) openHalf(session, CHAT, headers);
    await untilStreams(session, 250);
  }
  await until("the calls to be counted for their users", () => isServed(address));
});

test("gRPC port: the body of a refused call is discarded for two seconds, then its stream ends", async () => {
  const { session } = await connectGrpc(nextAddress());
  const startedAt = performance.now();
  const stream = openHalf(session, CHAT);
  const [trailers] = await Promise.all([once(stream, "trailers"), once(stream, "close")]);
  expect(trailers[0]["grpc-status"]).toBe("16");
  expect(stream.rstCode).toBe(NO_ERROR);
  expect(performance.now() - startedAt).toBeGreaterThanOrEqual(1_990);
});

/** Sends bytes to the REST port from an address. */
function openRest(localAddress: string, bytes: string) {
  const port = Number(new URL(app.url).port);
  const socket = connect({ port, host: "127.0.0.1", localAddress }).on("error", () => {});
  onTestFinished(() => void socket.destroy());
  socket.write(bytes);
  return socket;
}

const half = (line: string) =>
  `${line} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 90\r\n\r\n{`;
const whole = (line: string, more = "") => `${line} HTTP/1.1\r\nHost: x\r\n${more}\r\n`;
const statusFrom = async (address: string, line: string) =>
  (await text(openRest(address, whole(line, "Connection: close\r\n")))).match(
    /^HTTP\/1.1 (\d+)/,
  )?.[1];

describe("REST port: open requests", () => {
  test("of any method count towards their address, whose next request is 429 and closes the connection", async () => {
    const address = nextAddress();
    times(OPEN_CALLS, (i) => openRest(address, half(i % 2 ? "POST /auth/login" : "PUT /nothing")));
    const answer = await until("the share to be used up", async () => {
      const found = await text(
        openRest(address, whole("GET /openapi.json", "Connection: close\r\n")),
      );
      return /^HTTP\/1.1 429/.test(found) ? found : undefined;
    });
    expect(answer).toMatch(/^connection: close\r$/im);
    expect(answer).toMatch(/^retry-after: 1\r$/im);
    expect(answer).toMatch(/"code":"TOO_MANY_CONCURRENT"/);
    expect(await statusFrom(nextAddress(), "GET /openapi.json")).toBe("200");
    expect(await statusFrom(address, "GET /health/live")).toBe("200");
  });

  test("of a proxy that names no client count towards its own address", async () => {
    const sockets = times(OPEN_CALLS + 10, () => openRest("127.0.0.1", half("POST /auth/login")));
    const ask = () => sendHttp(app.url, "GET", "/openapi.json");
    await until("the share of the proxy to be used up", async () => (await ask()).status === 429);
    const named = { "x-forwarded-for": "203.0.113.80" };
    expect((await sendHttp(app.url, "GET", "/openapi.json", undefined, named)).status).toBe(200);
    for (const socket of sockets) socket.destroy();
    await until("the share to be free", async () => (await ask()).status === 200);
  });
});

describe("HTTP pipelining", () => {
  const count = (answers: string) => answers.match(/HTTP\/1.1 \d+/g)?.length ?? 0;

  test.each([
    { line: "GET /health/live" },
    { line: "GET /openapi.json" },
    { line: "GET /docs/scalar.js" },
    { line: "GET /nothing" },
    { line: "GET /user/profile" },
  ])("$line: a connection with 17 requests in progress is closed", async ({ line }) => {
    const answers = await text(openRest(nextAddress(), whole(line).repeat(17)));
    expect(count(answers)).toBeLessThan(17);
  });

  test("16 requests in progress are answered in order", async () => {
    const requests = times(15, (i) => whole(i % 2 ? "GET /nothing" : "GET /health/live"));
    const last = whole("GET /nothing", "Connection: close\r\n");
    const answers = await text(openRest(nextAddress(), requests.join("") + last));
    const statuses = answers.match(/HTTP\/1.1 \d+/g)?.map((line) => line.slice(-3));
    expect(statuses).toEqual([...times(15, (i) => (i % 2 ? "404" : "200")), "404"]);
  });
});

test("Access tokens of unknown keys: a few calls of an address wait for the keys, others are 429 immediately", async () => {
  const ask = (address: string) =>
    sendHttp(app.url, "GET", "/user/profile", undefined, {
      "x-forwarded-for": address,
      ...bearer(unknownKeyToken()),
    });
  const answers = await Promise.all(times(30, () => ask("203.0.113.90")));
  const statuses = tally(answers, ({ status }) => status);
  expect(Object.keys(statuses)).toEqual(["401", "429"]);
  expect(statuses[429]).toBeGreaterThan(15);
  expect((await ask("203.0.113.91")).status).toBe(401);
});

test("Log: refused requests beyond a burst are counted, and others are logged individually", async () => {
  const refused = () => app.logs.filter((line) => line.includes('"status":401')).length;
  const flood = async () => {
    for (const _ of times(20, String))
      await Promise.all(times(25, () => sendHttp(app.url, "GET", "/user/profile")));
  };
  const before = refused();
  await flood();
  expect(refused() - before).toBeLessThan(450);
  await until("the count", () => app.logs.some((line) => line.includes("not logged individually")));
  const { body } = await sendHttp(app.url, "GET", "/nothing");
  expect(body.code).toBe("NOT_FOUND");
  const live = await sendHttp(app.url, "GET", "/health/live", undefined, {
    "x-request-id": "after-the-flood",
  });
  expect(live.status).toBe(200);
  await until("its line", () => app.logs.some((line) => line.includes("after-the-flood")));
});

describe("INTERNAL_URL", async () => {
  const memoryBytes = 1_000 * 20 * 1024; // 1,000 connections
  const strangers = 256; // of one address; further ones are closed
  const admission = createAdmission({ budgetBytes: BUDGET_BYTES, memoryBytes });
  const waiting = Promise.withResolvers<void>();
  let called = 0;
  const handlers = {
    listKeys: async () => {
      called++;
      await waiting.promise;
      return { keys: [] };
    },
  };
  const routes = (router: ConnectRouter) => void router.service(AuthService, handlers);
  const server = await listenInternal(
    { routes, interceptors: [], admission },
    { url: "tcp://127.0.0.1:0", secret: SECRET, tls: {} },
  );
  afterAll(() => server.close(0));
  const url = `tcp://127.0.0.1:${server.port}`;

  test("an address that does not present the secret has a share of the connections", async () => {
    const localAddress = nextAddress();
    const sockets = times(strangers + 20, () =>
      connect({ port: server.port, host: "127.0.0.1", localAddress }).on("error", () => {}),
    );
    const isClosed = new Set<unknown>();
    for (const socket of sockets) socket.resume().once("close", () => isClosed.add(socket));
    await until("those beyond the share to be closed", () => isClosed.size === 20);
    for (const socket of sockets) socket.destroy();
  });

  test("a request without the secret ends its connection", async () => {
    const socket = connect({ port: server.port, host: "127.0.0.1" });
    socket.write(half(`POST ${LOGIN}`));
    expect(await text(socket)).toContain("INTERNAL_SECRET differs from that of the services");
  });

  test("the connections of a gateway are not counted once it has presented the secret", async () => {
    const transport = await forTest(createInternalTransport(url, SECRET));
    const { listKeys } = createClient(AuthService, transport);
    const calls: Promise<unknown>[] = [];
    for (const _ of times(4, String)) {
      calls.push(...times(100, () => listKeys({})));
      await until("the calls to arrive", () => called === calls.length);
    }
    waiting.resolve();
    expect(await Promise.all(calls)).toHaveLength(400);
  });
});
