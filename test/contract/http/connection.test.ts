import { once } from "node:events";
import net from "node:net";
import { describe, expect, test } from "vitest";
import { AuthService } from "../../../gen/gatehouse/account/v1/auth_service_pb.ts";
import { AIService } from "../../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import { start, startSuiteGateway } from "../../support/http/gateway.ts";
import { post, sendRawHttp, textOf } from "../../support/http/raw.ts";
import { CONVERSATION } from "../../support/http/stub-services.ts";
import { forTest } from "../../support/suites.ts";
import { until } from "../../support/until.ts";

/** Connects to a gateway that may end the connection at any moment. */
function openRaw(port: number) {
  const socket = net.connect(port, "127.0.0.1").on("error", () => {});
  return {
    socket,
    text: textOf(socket),
    closed: new Promise((resolve) => socket.on("close", resolve)),
  };
}

describe("Endless request body", async () => {
  const server = await startSuiteGateway((router) =>
    router.service(AuthService, { login: () => ({}) }),
  );
  const json = "Content-Type: application/json\r\n";
  const chunked = "Transfer-Encoding: chunked\r\n";
  const piece = `1000\r\n${" ".repeat(0x1000)}\r\n`;

  /**
   * Writes the head, and pieces until the connection ends.
   * @returns all bytes of the server
   */
  const pour = async (head: string, pieces: string) => {
    const { socket, text, closed } = openRaw(server.port);
    socket.write(`${head}\r\n`);
    const pouring = setInterval(() => socket.write(pieces), 2);
    const started = performance.now();
    await closed;
    clearInterval(pouring);
    expect(performance.now() - started).toBeLessThan(5_000);
    return text();
  };

  test.each([
    {
      status: 413,
      head: `POST /auth/login HTTP/1.1\r\nHost: x\r\n${json}${chunked}`,
      pieces: piece,
    },
    {
      status: 404,
      head: `POST /nope HTTP/1.1\r\nHost: x\r\nContent-Length: 10000000000\r\n`,
      pieces: piece,
    },
    {
      status: 405,
      head: `PUT /auth/login HTTP/1.1\r\nHost: x\r\n${json}${chunked}`,
      pieces: piece,
    },
    { status: 404, head: `POST /nope HTTP/1.1\r\nHost: x\r\n${chunked}`, pieces: "broken\r\n" },
    {
      status: 200,
      head: `GET /health/live HTTP/1.1\r\nHost: x\r\nContent-Length: 10000000000\r\n`,
      pieces: "",
    },
  ])(
    "gets status $status, is read a little longer, and is then closed",
    async ({ status, head, pieces }) => {
      expect((await pour(head, pieces)).match(/HTTP\/1\.1 \d+/g)).toEqual([`HTTP/1.1 ${status}`]);
    },
  );

  test("a body that ends soon after its 404 or 413 leaves the connection open for the next request", async () => {
    const next = "GET /health/live HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    for (const [status, path, body] of [
      [404, "/nope", "{}"] as const,
      [413, "/auth/login", " ".repeat(20_000)] as const,
    ]) {
      const head = `POST ${path} HTTP/1.1\r\nHost: x\r\n${json}Content-Length: ${body.length}\r\n\r\n`;
      const text = await sendRawHttp(server.port, head + body + next);
      expect(text.match(/HTTP\/1\.1 \d+/g)).toEqual([`HTTP/1.1 ${status}`, "HTTP/1.1 200"]);
    }
  });
});

describe("Connection header", async () => {
  const server = await startSuiteGateway(() => {});
  const ask = (line: string, rest: string) =>
    sendRawHttp(server.port, `${line} HTTP/1.1\r\nHost: x\r\n${rest}`);

  test.each([
    [404, "GET /nope"],
    [405, "DELETE /auth/login"],
    [400, "GET /user/%zz"],
  ])("says whether the connection stays open after status %i: %s", async (status, line) => {
    const close = "Connection: close\r\n\r\n";
    expect(await ask(line, close)).toMatch(
      new RegExp(`^HTTP/1.1 ${status} .*^connection: close\r$`, "ims"),
    );
    const [first] = (await ask(line, `\r\nGET /health/live HTTP/1.1\r\nHost: x\r\n${close}`)).split(
      /(?<!^)HTTP/,
    );
    expect(first).toMatch(
      new RegExp(`^HTTP/1.1 ${status} .*^connection: keep-alive\r$.*^keep-alive: timeout=`, "ims"),
    );
  });

  test("says close after status 413 if the client sent close", async () => {
    const head =
      "Content-Type: application/json\r\nConnection: close\r\nContent-Length: 20000\r\n\r\n";
    const text = await ask("POST /auth/login", head + " ".repeat(20_000));
    expect(text).toMatch(/^HTTP\/1\.1 413 .*^connection: close\r$/ims);
  });
});

test.each([
  ["rubbish", "JUNK\r\n\r\n"],
  ["a tunnel", "CONNECT example.com:80 HTTP/1.1\r\nHost: x\r\n\r\n"],
  [
    "a broken body",
    "POST /auth/login HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
  ],
  ["two requests and rubbish", `${post("/ai/chat", CONVERSATION).repeat(2)}JUNK\r\n\r\n`],
])(
  "HTTP pipelining: %s after a request in progress ends all calls without a response",
  async (_what, junk) => {
    let open = 0;
    const chat = async (_request: unknown, { signal }: { signal: AbortSignal }) => {
      open++;
      await once(signal, "abort");
      open--;
      return {};
    };
    const server = await forTest(start((router) => router.service(AIService, { chat })));
    const { socket, text, closed } = openRaw(server.port);
    socket.write(post("/ai/chat", CONVERSATION));
    await until("the call", () => open === 1);
    socket.write(junk);
    await closed;
    expect(text()).toBe("");
    await until("the end of the call", () => open === 0);
  },
);

test("CONNECT: a client that disconnects immediately does not affect others", async () => {
  const server = await forTest(start((router) => router.service(AuthService, {})));
  for (let i = 0; i < 20; i++) {
    const socket = net.connect(server.port, "127.0.0.1", () => {
      socket.write("CONNECT example.com:80 HTTP/1.1\r\nHost: x\r\n\r\n", () =>
        socket.resetAndDestroy(),
      );
    });
    await new Promise((resolve) => socket.on("close", resolve));
  }
  expect((await server.send("GET", "/health/live")).status).toBe(200);
});
