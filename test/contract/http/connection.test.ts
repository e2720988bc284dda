import { once } from "node:events";
import net from "node:net";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { AuthService } from "../../../gen/gatehouse/account/v1/auth_service_pb.ts";
import { AIService } from "../../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import { type Started, start } from "../../support/gateway.ts";
import { post, sendRawHttp } from "../../support/raw-http.ts";
import { CONVERSATION } from "../../support/stub-services.ts";
import { until, untilStill } from "../../support/until.ts";

describe("Endless request body", () => {
  let server: Started;
  beforeAll(async () => {
    server = await start((router) => router.service(AuthService, { login: () => ({}) }));
  });
  afterAll(() => server.close());
  const json = "Content-Type: application/json\r\n";
  const chunked = "Transfer-Encoding: chunked\r\n";
  const piece = `1000\r\n${" ".repeat(0x1000)}\r\n`;

  /** Writes the head and pours pieces until the connection ends, which has to be soon; tells all that came back. */
  const pour = async (head: string, pieces: string) => {
    const socket = net.connect(server.port, "127.0.0.1");
    const closed = new Promise((resolve) => socket.on("close", resolve));
    let text = "";
    socket
      .on("error", () => {})
      .on("data", (data) => {
        text += data;
      });
    socket.write(`${head}\r\n`);
    const pouring = setInterval(() => socket.write(pieces), 2);
    const started = performance.now();
    await closed;
    clearInterval(pouring);
    expect(performance.now() - started).toBeLessThan(5_000);
    return text;
  };

  test.each([
    [413, `POST /auth/login HTTP/1.1\r\nHost: x\r\n${json}${chunked}`, piece],
    [404, `POST /nope HTTP/1.1\r\nHost: x\r\nContent-Length: 10000000000\r\n`, piece],
    [405, `PUT /auth/login HTTP/1.1\r\nHost: x\r\n${json}${chunked}`, piece],
    [404, `POST /nope HTTP/1.1\r\nHost: x\r\n${chunked}`, "broken\r\n"],
    [200, `GET /health/live HTTP/1.1\r\nHost: x\r\nContent-Length: 10000000000\r\n`, ""],
  ])("is answered by %i, read a little longer, and cut off", async (status, head, pieces) => {
    expect((await pour(head, pieces)).match(/HTTP\/1\.1 \d+/g)).toEqual([`HTTP/1.1 ${status}`]);
  });

  test.each([
    [404, "/nope", "{}"],
    [413, "/auth/login", " ".repeat(20_000)],
  ])("one that ends soon after its %i keeps the connection open for the next request", async (status, path, body) => {
    const next = "GET /health/live HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    const head = `POST ${path} HTTP/1.1\r\nHost: x\r\n${json}Content-Length: ${body.length}\r\n\r\n`;
    const text = await sendRawHttp(server.port, head + body + next);
    expect(text.match(/HTTP\/1\.1 \d+/g)).toEqual([`HTTP/1.1 ${status}`, "HTTP/1.1 200"]);
  });
});

describe("Connection header", () => {
  let server: Started;
  beforeAll(async () => {
    server = await start(() => {});
  });
  afterAll(() => server.close());
  const ask = (line: string, rest: string) => sendRawHttp(server.port, `${line} HTTP/1.1\r\nHost: x\r\n${rest}`);

  test.each([
    [404, "GET /nope"],
    [405, "DELETE /auth/login"],
    [400, "GET /user/%zz"],
  ])("tells whether the connection stays open after %i: %s", async (status, line) => {
    const close = "Connection: close\r\n\r\n";
    expect(await ask(line, close)).toMatch(new RegExp(`^HTTP/1.1 ${status} .*^connection: close\r$`, "ims"));
    const [first] = (await ask(line, `\r\nGET /health/live HTTP/1.1\r\nHost: x\r\n${close}`)).split(/(?<!^)HTTP/);
    expect(first).toMatch(new RegExp(`^HTTP/1.1 ${status} .*^connection: keep-alive\r$.*^keep-alive: timeout=`, "ims"));
  });

  test("tells that the connection closes after 413 to a client that closes", async () => {
    const head = "Content-Type: application/json\r\nConnection: close\r\nContent-Length: 20000\r\n\r\n";
    const text = await ask("POST /auth/login", head + " ".repeat(20_000));
    expect(text).toMatch(/^HTTP\/1\.1 413 .*^connection: close\r$/ims);
  });
});

describe.each([
  ["rubbish", "JUNK\r\n\r\n", "clientError"],
  ["a tunnel", "CONNECT example.com:80 HTTP/1.1\r\nHost: x\r\n\r\n", "connect"],
])("HTTP pipelining: %s after", (_what, junk, event) => {
  let server: Started;
  afterEach(() => server.close());

  test("good requests leaves them their responses, and closes the connection", async () => {
    server = await start((router) => router.service(AuthService, { login: () => ({ accessToken: "given" }) }));
    const login = post("/auth/login", { email: "a@b.cd", password: "x" });
    const text = await sendRawHttp(server.port, login + login + junk);
    expect(text.match(/HTTP\/1\.1 \d+/g)).toEqual(["HTTP/1.1 200", "HTTP/1.1 200"]);
    expect(text).toMatch(/"given".*connection: close.*"given"/is);
  });

  test("a body in transfer is answered in its turn", async () => {
    server = await start((router) => router.service(AuthService, { login: () => ({ accessToken: "given" }) }));
    const login = post("/auth/login", { email: "a@b.cd", password: "x" });
    const begun = login.replace(/Content-Length: \d+/, "Transfer-Encoding: chunked").replace(/\{.*/, junk);
    const text = await sendRawHttp(server.port, login + begun);
    expect(text.match(/HTTP\/1\.1 \d+/g)).toEqual(["HTTP/1.1 200", "HTTP/1.1 400"]);
    expect(text).toContain('"given"');
  });

  test("a stream in progress lets it finish, and closes the connection", async () => {
    const behind = Promise.withResolvers<void>();
    server = await start((router) =>
      router.service(AIService, {
        async *streamChat() {
          yield { chunk: "one" };
          await behind.promise;
          yield { chunk: "two" };
        },
      }),
    );
    server.gateway.app.server.once(event, () => behind.resolve());
    const socket = net.connect(server.port, "127.0.0.1", () => socket.write(post("/ai/stream", CONVERSATION)));
    let text = "";
    socket.setEncoding("utf8").on("data", (data) => {
      if (text === "") socket.write(junk);
      text += data;
    });
    await new Promise((resolve) => socket.on("close", resolve));
    expect(text.match(/HTTP\/1\.1 \d+/g)).toEqual(["HTTP/1.1 200"]);
    expect(text).toMatch(/one.*two.*\[DONE\]\n\n\r\n0\r\n\r\n$/s);
  });

  test("a call in progress cancels it when the client disconnects", async () => {
    let held = 0;
    const chat = async (_request: unknown, { signal }: { signal: AbortSignal }) => {
      held++;
      await once(signal, "abort");
      held--;
      return {};
    };
    server = await start((router) => router.service(AIService, { chat }));
    const isSeen = once(server.gateway.app.server, event);
    const socket = net.connect(server.port, "127.0.0.1", () => socket.write(post("/ai/chat", CONVERSATION) + junk));
    await Promise.all([isSeen, until("the call", () => held === 1)]);
    socket.destroy();
    await until("its end", () => held === 0);
  });
});

test("CONNECT: a client that disconnects at once does no harm", async () => {
  const server = await start((router) => router.service(AuthService, {}));
  for (let i = 0; i < 20; i++) {
    const socket = net.connect(server.port, "127.0.0.1", () => {
      socket.write("CONNECT example.com:80 HTTP/1.1\r\nHost: x\r\n\r\n", () => socket.resetAndDestroy());
    });
    await new Promise((resolve) => socket.on("close", resolve));
  }
  expect((await server.send("GET", "/health/live")).status).toBe(200);
  await server.close();
});

test("HTTP pipelining: thousands of requests delay no other connection, and are dropped when the client disconnects", async () => {
  const env = { SHUTDOWN_TIMEOUT: "20s" };
  const server = await start((router) => router.service(AuthService, { login: () => ({}) }), { env });
  const login = post("/auth/login", { email: "a@b.cd", password: "x" });
  const flood = net.connect(server.port, "127.0.0.1", () => flood.write(login.repeat(1_000)));
  await until("the first of them", () => server.logs.length > 0);
  await server.send("GET", "/health/live");
  flood.destroy();
  await untilStill("the flood", () => server.logs.length);
  const endingSince = performance.now();
  await server.close();
  expect(performance.now() - endingSince).toBeLessThan(10_000);
  expect(server.logs.length).toBeLessThan(500);
});
