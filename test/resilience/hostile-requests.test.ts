import http2 from "node:http2";
import { create, toBinary } from "@bufbuild/protobuf";
import { Code } from "@connectrpc/connect";
import { afterAll, beforeAll, expect, test } from "vitest";
import { LoginRequestSchema } from "../../gen/gatehouse/account/v1/auth_service_pb.ts";
import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { signInAt } from "../support/accounts.ts";
import { freshStorage } from "../support/databases.ts";
import { type Process, startProcess } from "../support/deployment.ts";
import { bomb, CHAT, GZIP, grpcUrlIn, head, LOGIN, questions, REFLECTION, withSession } from "../support/hostile.ts";
import { createHttpClient, sendHttp } from "../support/http-client.ts";
import { failureOf, framed, send } from "../support/raw-grpc.ts";
import { sendRawHttp } from "../support/raw-http.ts";
import { times } from "../support/until.ts";

/** The heap that the documentation gives a process in a container of 512 MB, in MB. */
const HEAP_MB = 256;
const OWNER = { email: "owner@example.com", password: "Correct-horse-1" };

/** Starts a process with a small heap. @returns it with the address of its gRPC port */
async function startSmall(env: Record<string, string>): Promise<Process & { grpcUrl: string }> {
  const process = await startProcess({
    ...(await freshStorage()),
    NODE_OPTIONS: `--max-old-space-size=${HEAP_MB}`,
    ...env,
  });
  return { ...process, grpcUrl: grpcUrlIn(process.output()) };
}

let product: Process;
let accessToken: string;
let grpcUrl: string;
beforeAll(async () => {
  const started = await startSmall({ RATE_LIMITS: "off" });
  product = started;
  grpcUrl = started.grpcUrl;
  ({ accessToken } = await signInAt(product.url));
});
afterAll(async () => expect(await product.end("SIGTERM")).toBe(0));

/** Expects that other callers are served. */
async function expectServed(): Promise<void> {
  const client = createHttpClient(product.url);
  expect((await client.get("/health/live")).status).toBe(200);
  expect((await client.get("/user/profile", accessToken)).status).toBe(200);
}

test("gRPC: compressed lists of a million elements are refused before they are expanded, without a token", async () => {
  const answers = await withSession(grpcUrl, (session) =>
    Promise.all(times(40, () => send(session, head(CHAT, GZIP), bomb))),
  );
  expect(new Set(answers.map((answer) => failureOf(answer).code))).toEqual(new Set([Code.Unauthenticated]));
  const publicly = await withSession(grpcUrl, (session) => send(session, head(LOGIN, GZIP), bomb));
  expect(failureOf(publicly).reason).toBe(Reason.NOT_IMPLEMENTED);
  await expectServed();
});

test("REST: large bodies of many members are 401 without a token and 400 with one", async () => {
  const body = `{${times(150_000, (i) => `"k${i}":1`).join()}}`;
  const client = createHttpClient(product.url);
  const anonymous = await Promise.all(times(12, () => client.post("/ai/chat", body)));
  expect(new Set(anonymous.map(({ status }) => status))).toEqual(new Set([401]));
  expect((await client.post("/ai/chat", body, accessToken)).body.code).toBe("MALFORMED_REQUEST");
  await expectServed();
});

test("gRPC: one address can open eight health watches, and health checks still work", async () => {
  await withSession(grpcUrl, async (session) => {
    const open = () => {
      const stream = session
        .request(head("/grpc.health.v1.Health/Watch"))
        .on("error", () => {})
        .resume();
      stream.end(framed(new Uint8Array()));
      return new Promise<string | undefined>((resolve) => {
        stream.once("trailers", (trailers) => resolve(String(trailers["grpc-status"])));
        stream.once("data", () => resolve(undefined));
      });
    };
    const refused = (await Promise.all(times(30, open))).filter((status) => status !== undefined);
    expect(refused).toEqual(times(22, () => String(Code.ResourceExhausted)));
    const check = await send(session, head("/grpc.health.v1.Health/Check"), framed(new Uint8Array()));
    expect(check.trailers["grpc-status"]).toBe("0");
  });
  await expectServed();
});

test("gRPC: reflection is not compressed, so that it uses no thread of the logins", async () => {
  await withSession(grpcUrl, async (session) => {
    const answer = await send(session, head(REFLECTION, { "grpc-accept-encoding": "br" }), questions(1));
    expect([answer.status, answer.head["grpc-encoding"]]).toEqual([200, undefined]);
  });
  await expectServed();
});

test("Login flood from one address on both ports: other accounts are served, and the victim gets a response", async () => {
  const flooded = await startSmall({ TRUST_PROXY: "127.0.0.1" });
  const client = createHttpClient(flooded.url);
  const other = { email: "other@example.com", password: "Correct-horse-2" };
  for (const account of [OWNER, other]) {
    await client.post("/auth/register", { ...account, name: "Name", acceptTerms: true });
  }
  const token = (await client.post("/auth/login", other)).body.accessToken;

  const attacker = { "x-forwarded-for": "198.51.100.7" };
  const wrong = { email: OWNER.email, password: "Wrong-horse-1" };
  const statuses = new Set<number>();
  let isOver = false;
  const rest = times(50, async () => {
    while (!isOver) statuses.add((await sendHttp(flooded.url, "POST", "/auth/login", wrong, attacker)).status);
  });
  const session = http2.connect(flooded.grpcUrl).on("error", () => {});
  const message = framed(toBinary(LoginRequestSchema, create(LoginRequestSchema, wrong)));
  const grpc = times(50, async () => {
    while (!isOver) await send(session, head(LOGIN, attacker), message);
  });

  for (let round = 0; round < 3; round++) {
    const elsewhere = createHttpClient(flooded.url);
    expect((await elsewhere.get("/user/profile", token)).status).toBe(200);
    expect((await elsewhere.post("/auth/login", other)).status).toBe(200);
    expect([200, 423]).toContain((await elsewhere.post("/auth/login", OWNER)).status); // five wrong passwords lock it
  }
  isOver = true;
  await Promise.all([...rest, ...grpc]);
  session.destroy();
  expect([...statuses].every((status) => [401, 423, 429, 503].includes(status))).toBe(true);
  expect(await flooded.end("SIGTERM")).toBe(0);
});

test("POST /ai/chat: invites an announced body only with a valid token", async () => {
  const announce = (token: string) =>
    sendRawHttp(
      Number(new URL(product.url).port),
      "POST /ai/chat HTTP/1.1\r\nHost: x\r\nConnection: close\r\nExpect: 100-continue\r\n" +
        `Authorization: Bearer ${token}\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}`,
    );
  expect(await announce("invalid")).toMatch(/^HTTP\/1\.1 401 /);
  expect(await announce(accessToken)).toMatch(/^HTTP\/1\.1 100 Continue\r\n\r\nHTTP\/1\.1 400 /);
});
