import http2 from "node:http2";
import { connect } from "node:net";
import { availableParallelism } from "node:os";
import { gzipSync } from "node:zlib";
import { create, toBinary } from "@bufbuild/protobuf";
import { afterAll, describe, expect, test } from "vitest";
import { LoginRequestSchema } from "../../gen/gatehouse/account/v1/auth_service_pb.ts";
import { accountsAt, signInAt } from "../support/accounts.ts";
import { conversationOf, startSuiteProvider } from "../support/ai/calls.ts";
import { freshStorage } from "../support/database/databases.ts";
import {
  bomb,
  CHAT,
  elements,
  failureOf,
  framed,
  GZIP,
  grpcUrlIn,
  head,
  httpStatusOf,
  LOGIN,
  questions,
  REFLECTION,
  send,
  withSession,
} from "../support/grpc.ts";
import { createHttpClient, sendHttp } from "../support/http/client.ts";
import { lowThreadsOf, startApart, startProcess } from "../support/processes/processes.ts";
import { times } from "../support/tally.ts";
import { until } from "../support/until.ts";

const CONVERSATION = conversationOf("case: plain");
const ATTACKER = { "x-forwarded-for": "198.51.100.7" };

const large = Buffer.from(JSON.stringify({ ...CONVERSATION, pad: "x".repeat(2_000_000) }));
const manyMembers = Buffer.from(`{${times(150_000, (i) => `"k${i}":1`).join()}}`);
const simulator = await startSuiteProvider();

/** The smallest process, and in full runs the largest deployment. */
const SETUPS: [number, string][] = [[256, "in one process"]];
if (process.env.TEST_FULL) SETUPS.push([512, "apart"]);

/** The status of a response. A caller with too many open calls gets a stream error instead. */
async function refusedOr(answer: Promise<number>): Promise<number> {
  try {
    return await answer;
  } catch (error) {
    if (/NGHTTP2_ENHANCE_YOUR_CALM/.test(String(error))) return 429;
    throw error;
  }
}

describe.each(SETUPS)("Attacks on both ports of a heap of %i MB, %s", async (heapMb, mode) => {
  const env = {
    ...(await freshStorage()),
    NODE_OPTIONS: `--max-old-space-size=${heapMb}`,
    RATE_LIMITS: "off",
    TRUST_PROXY: "127.0.0.1",
    ...simulator.env,
  };
  const apart = mode === "apart" ? await startApart(env) : undefined;
  const gateway = apart?.gateway ?? (await startProcess(env));
  const services = apart?.services ?? gateway;
  afterAll(async () => {
    for (const process of new Set([gateway, services]))
      expect(await process.end("SIGTERM")).toBe(0);
  });
  const { url } = gateway;
  const grpcUrl = grpcUrlIn(services.output());
  const { accessToken } = await signInAt(url);
  const other = await accountsAt(url).addUser(); // too many sessions end the oldest

  /** Expects that other callers are served. */
  async function expectServed(): Promise<void> {
    const client = createHttpClient(url);
    const answers = [
      client.get("/health/live"),
      client.get("/user/profile", accessToken),
      client.post("/auth/login", other.credentials),
      client.post("/ai/chat", CONVERSATION, accessToken),
    ];
    expect((await Promise.all(answers)).map(({ status }) => status)).toEqual([200, 200, 200, 200]);
  }

  /**
   * Expects that others are served until an attack has its responses.
   * @returns the HTTP statuses of the responses
   */
  async function during(answers: Promise<number>[]): Promise<number[]> {
    let isOver = false;
    const all = Promise.allSettled(answers).finally(() => {
      isOver = true;
    });
    do await expectServed();
    while (!isOver);
    await all;
    return [...new Set(await Promise.all(answers.map(refusedOr)))].sort();
  }

  const grpc = async (
    session: http2.ClientHttp2Session,
    path: string,
    body: Uint8Array,
    more = {},
  ) =>
    httpStatusOf(failureOf(await send(session, head(path, { ...ATTACKER, ...more }), body)).code);
  const rest = async (path: string, body: Uint8Array, more = {}) =>
    (await sendHttp(url, "POST", path, body, { ...ATTACKER, ...more })).status;

  test("gzip bombs and large bodies without a token are refused", async () => {
    const statuses = await withSession(grpcUrl, (session) =>
      during([
        ...times(20, () => grpc(session, CHAT, bomb, GZIP)),
        ...times(20, () => grpc(session, CHAT, framed(elements))),
        ...times(20, () => rest("/ai/chat", gzipSync(large), { "content-encoding": "gzip" })),
        ...times(20, () => rest("/ai/chat", large)),
        ...times(20, () => rest("/ai/chat", manyMembers)),
      ]),
    );
    expect(statuses.every((status) => [401, 429].includes(status))).toBe(true);
    const publicly = await withSession(grpcUrl, (session) =>
      during([
        ...times(20, () => grpc(session, LOGIN, framed(elements))),
        ...times(20, () => rest("/auth/login", large)),
      ]),
    );
    expect(publicly.every((status) => [413, 429].includes(status))).toBe(true);
  });

  test("16 requests of a registered user that expand to a million elements are refused", async () => {
    const authorization = `Bearer ${(await signInAt(url)).accessToken}`;
    const list = Buffer.from(`{"messages":[${"{},".repeat(600_000)}{}]}`);
    const statuses = await withSession(grpcUrl, (session) =>
      during([
        ...times(16, () => grpc(session, CHAT, bomb, { ...GZIP, authorization })),
        ...times(16, () => grpc(session, CHAT, framed(elements), { authorization })),
        ...times(16, () => rest("/ai/chat", list, { authorization })),
      ]),
    );
    expect(statuses.every((status) => [400, 413, 429, 503].includes(status))).toBe(true);
    expect(statuses).toContain(413);
    const members = await sendHttp(url, "POST", "/ai/chat", manyMembers, { authorization });
    expect(members.body.code).toBe("MALFORMED_REQUEST");
  });

  test("unfinished requests use only the share of their address", async () => {
    const { hostname, port } = new URL(url);
    const lines = `POST /auth/login HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: ${ATTACKER["x-forwarded-for"]}\r\n`;
    const start = `${lines}Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{`;
    const sockets = times(800, () =>
      connect(Number(port), hostname, function (this: { write(s: string): void }) {
        this.write(start);
      }).on("error", () => {}),
    );
    const sessions = times(4, () => http2.connect(grpcUrl).on("error", () => {}));
    for (const session of sessions) {
      for (const stream of times(200, () => session.request(head(LOGIN, ATTACKER))))
        stream.on("error", () => {}).write("\0");
    }
    const ask = () => sendHttp(url, "POST", "/auth/verify-email", { token: "x" }, ATTACKER);
    let callers = 1; // more each time, since earlier callers may hold permits
    const askMore = () => Promise.all(times(callers++, ask));
    await until("the share to be used up", async () =>
      (await askMore()).some(({ status }) => status === 429),
    );
    await expectServed();
    for (const one of [...sockets, ...sessions]) one.destroy();
    await until("the share to be free", async () => (await ask()).body.code === "TOKEN_INVALID");
  });

  test("large reflection streams are answered or refused, and other clients are served", async () => {
    await withSession(grpcUrl, async (session) => {
      const ask = async () => {
        const headers = head(REFLECTION, { ...ATTACKER, "grpc-accept-encoding": "br,gzip" });
        const { head: first, trailers } = await send(session, headers, questions(100));
        return httpStatusOf(Number(trailers["grpc-status"] ?? first["grpc-status"]));
      };
      const statuses = await during(times(12, ask));
      expect(statuses.every((status) => [200, 413, 429].includes(status))).toBe(true);
    });
  });

  test("during a flood of logins from one address other clients are served, and DNS and files keep four threads", async () => {
    const { credentials } = await accountsAt(url).addUser();
    const wrong = { ...credentials, password: "Wrong-horse-1" };
    const message = framed(toBinary(LoginRequestSchema, create(LoginRequestSchema, wrong)));
    const threads = availableParallelism() + 4; // a hash on every core
    const isComplete = () => process.platform !== "linux" || lowThreadsOf(services.pid) === threads;
    await withSession(grpcUrl, async (session) => {
      const guess = (i: number) =>
        i % 2
          ? rest("/auth/login", Buffer.from(JSON.stringify(wrong)))
          : grpc(session, LOGIN, message);
      const flood = times(100, async (i) => {
        const statuses = [];
        for (const _ of times(10, String)) statuses.push(await guess(i));
        return statuses.find((status) => ![401, 423, 429, 503].includes(status)) ?? 401;
      });
      const signIn = async () =>
        (await createHttpClient(url).post("/auth/login", credentials)).status;
      const isPrepared = until("the thread pool at low priority", isComplete);
      const [statuses, own] = await Promise.all([during(flood), signIn(), isPrepared]);
      expect(statuses).toEqual([401]);
      expect([200, 423, 503]).toContain(own); // more than ten logins do not wait for the guesses of an account
      expect(await signIn()).toBe(423); // five wrong passwords lock it
    });
  });
});
