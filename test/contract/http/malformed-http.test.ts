import net from "node:net";
import { expect, test } from "vitest";
import { AuthService } from "../../../gen/gatehouse/account/v1/auth_service_pb.ts";
import { UserService } from "../../../gen/gatehouse/account/v1/user_service_pb.ts";
import { commonHeaders, startSuiteGateway } from "../../support/http/gateway.ts";
import { sendRawHttp } from "../../support/http/raw.ts";
import { TEXT } from "../../support/http/responses.ts";
import { until } from "../../support/until.ts";

const server = await startSuiteGateway(
  (router) =>
    router
      .service(UserService, { getProfile: () => ({ user: { id: "1" } }) })
      .service(AuthService, { login: () => ({}) }),
  { requestTimeoutMs: 400, env: { PUBLIC_URL: "https://api.example.com" } },
);

const expectedHeaders = {
  ...commonHeaders,
  "strict-transport-security": "max-age=31536000; includeSubDomains",
  "content-type": "application/json; charset=utf-8",
};

/** Status, headers and JSON of the last response in the received text. */
const read = (text: string) => {
  const last = text.slice(text.lastIndexOf("HTTP/1.1 "));
  const [head = "", ...rest] = last.split("\r\n\r\n");
  const lines = head
    .split("\r\n")
    .map((line) => [line.split(":", 1)[0]?.toLowerCase(), line.replace(/^[^:]*: */, "")]);
  const headers: Record<string, string> = Object.fromEntries(lines);
  return { status: Number(last.slice(9, 12)), headers, body: JSON.parse(rest.join("\r\n\r\n")) };
};
const exchange = async (request: string) => read(await sendRawHttp(server.port, request));
const POST = "POST /auth/login HTTP/1.1\r\nHost: x\r\n";
const POST_JSON = `${POST}Content-Type: application/json\r\n`;
const close = "Connection: close\r\n\r\n";

test.each([
  { what: "no HTTP at all", request: "hello\r\n\r\n", status: 400 },
  {
    what: "a method in lower case and no version",
    request: "get /user/profile\r\n\r\n",
    status: 400,
  },
  { what: "no version", request: "GET /user/profile\r\n\r\n", status: 400 },
  { what: "another protocol", request: "DESCRIBE /user/profile RTSP/1.0\r\n\r\n", status: 400 },
  {
    what: "a broken header",
    request: `GET /user/profile HTTP/1.1\r\nHost: x\r\nno colon\r\n${close}`,
    status: 400,
  },
  {
    what: "a NUL in a header",
    request: `GET /user/profile HTTP/1.1\r\nHost: x\r\nA: \0\r\n${close}`,
    status: 400,
  },
  {
    what: "two Host headers",
    request: `GET /user/profile HTTP/1.1\r\nHost: a\r\nHost: b\r\n${close}`,
    status: 400,
  },
  { what: "no Host header", request: `GET /user/profile HTTP/1.1\r\n${close}`, status: 400 },
  {
    what: "two lengths",
    request: `${POST}Content-Length: 1\r\nContent-Length: 2\r\n${close}{}`,
    status: 400,
  },
  {
    what: "length and chunks",
    request: `${POST}Content-Length: 2\r\nTransfer-Encoding: chunked\r\n${close}{}`,
    status: 400,
  },
  {
    what: "a broken chunk",
    request: `${POST_JSON}Transfer-Encoding: chunked\r\n\r\nzz\r\n`,
    status: 400,
  },
  { what: "a broken path", request: `GET /user/%zz HTTP/1.1\r\nHost: x\r\n${close}`, status: 400 },
  {
    what: "a path in broken UTF-8",
    request: `GET /user/sessions/%ff HTTP/1.1\r\nHost: x\r\n${close}`,
    status: 400,
  },
  {
    what: "headers without end",
    request: `GET / HTTP/1.1\r\nHost: x\r\nA: ${"x".repeat(20_000)}\r\n${close}`,
    status: 431,
  },
  {
    what: "a tunnel",
    request: `CONNECT example.com:80 HTTP/1.1\r\nHost: x\r\n${close}`,
    status: 400,
  },
  ...["BREW", "get", "GETX", "M-X!"].map((method) => ({
    what: `the unknown method ${method}`,
    request: `${method} /user/profile HTTP/1.1\r\nHost: x\r\n${close}`,
    status: 400,
  })),
])("Malformed HTTP: $what gets a response in the error format", async ({ request, status }) => {
  const answer = await exchange(request);
  expect(answer.status).toBe(status);
  expect(answer.body).toEqual({
    statusCode: status,
    message: TEXT,
    error: TEXT,
    code: "MALFORMED_REQUEST",
  });
  expect(answer.headers).toMatchObject(expectedHeaders);
  const mine = () =>
    server.logs.filter(({ requestId }) => requestId === answer.headers["x-request-id"]);
  await until("the log line", () => mine().length > 0);
  expect(mine()).toMatchObject([{ status }]);
});

test("Malformed HTTP: an unsupported method is 405 with Allow, even with an absolute URL", async () => {
  const answer = await exchange(`GET http://x/auth/login?a=b HTTP/1.1\r\nHost: x\r\n${close}`);
  expect(answer).toMatchObject({
    status: 405,
    body: { code: "METHOD_NOT_ALLOWED", error: "Method Not Allowed" },
  });
  expect(answer.headers).toMatchObject({ ...expectedHeaders, allow: "POST" });
});

test.each(["/user/profile", "/auth/login", "/health", "/docs"])(
  "Malformed HTTP: TRACE of %s is 405, and the response repeats nothing of the request",
  async (path) => {
    const sent = `TRACE ${path} HTTP/1.1\r\nHost: x\r\nCookie: refreshToken=hidden\r\n${close}`;
    const answer = await exchange(sent);
    expect(answer).toMatchObject({ status: 405, body: { code: "METHOD_NOT_ALLOWED" } });
    expect(JSON.stringify(answer)).not.toContain("hidden");
  },
);

test("Malformed HTTP: a request with slow headers or a slow body is 408", async () => {
  const slow = {
    status: 408,
    body: { statusCode: 408, error: "Request Timeout", code: "REQUEST_TIMEOUT" },
  };
  expect(await exchange("GET /user/profile HTTP/1.1\r\nHost:")).toMatchObject(slow);
  expect(await exchange(`${POST_JSON}Content-Length: 50\r\n\r\n{"email":`)).toMatchObject(slow);
  expect(server.logs.filter((line) => (line.level as number) >= 40)).toEqual([]);
});

test("Malformed HTTP: garbage after a complete request does not affect other requests", async () => {
  const text = await sendRawHttp(
    server.port,
    "GET /user/profile HTTP/1.1\r\nHost: x\r\n\r\nrubbish\r\n\r\n",
  );
  expect(text).toMatch(/^(HTTP\/1\.1 (200|400) |$)/); // or the connection is closed at once
  expect((await server.send("GET", "/user/profile")).status).toBe(200);
});

test("Malformed HTTP: unknown protocol upgrades are ignored", async () => {
  const expects = `GET /user/profile HTTP/1.1\r\nHost: x\r\nExpect: magic\r\n${close}`;
  expect((await exchange(expects)).status).toBe(200);
  const upgrade =
    "GET /user/profile HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: upgrade, close\r\n\r\n";
  expect((await exchange(upgrade)).status).toBe(200);
  const old = "GET /user/profile HTTP/1.0\r\nExpect: 100-continue\r\n\r\n"; // HTTP/1.0 has no 100
  expect(await sendRawHttp(server.port, old)).toMatch(/^HTTP\/1\.1 200 /);
});

test("Malformed HTTP: a client that disconnects during its body leaves one log line and no error", async () => {
  server.logs.length = 0;
  const socket = net.connect(server.port, "127.0.0.1");
  socket.write(`${POST_JSON}Content-Length: 50\r\n\r\n{`, () => socket.destroy());
  const line = await until("the log line", () =>
    server.logs.find(({ route }) => route === "/auth/login"),
  );
  expect(line).toMatchObject({ status: 499, clientGone: true });
  expect(server.logs.filter(({ level }) => (level as number) >= 40)).toEqual([]);
});

test.each([
  { method: "GET", target: "*" },
  { method: "HEAD", target: "*" },
  { method: "POST", target: "*" },
  { method: "OPTIONS", target: "*" },
  { method: "GET", target: "ftp://x/user/profile" },
])(
  "Malformed HTTP: the target of $method $target is not a path, and gets 400",
  async ({ method, target }) => {
    const request = `${method} ${target} HTTP/1.1\r\nHost: x\r\n${close}`;
    const text = await sendRawHttp(server.port, request);
    expect(text).toMatch(/^HTTP\/1\.1 400 /);
    if (method !== "HEAD") expect(read(text).body.code).toBe("MALFORMED_REQUEST");
  },
);

test.each(["/user/profile", "http://x/user/profile", "HTTP://x/user/profile"])(
  "Malformed HTTP: the target %s is a path",
  async (target) => {
    const { status } = await exchange(`GET ${target} HTTP/1.1\r\nHost: x\r\n${close}`);
    expect(status).toBe(200);
  },
);
