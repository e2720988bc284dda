import http2 from "node:http2";
import net from "node:net";
import { getOption } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { describe, expect, test } from "vitest";
import { createServicesTransport } from "../../../../gateway/transport/services.ts";
import { AuthService } from "../../../../gen/gatehouse/account/v1/auth_service_pb.ts";
import { outcome, Reason, ReasonSchema } from "../../../../gen/gatehouse/platform/v1/failure_pb.ts";
import {
  failWith,
  startGateway,
  startSuiteGateway,
  transportKinds,
} from "../../../support/http/gateway.ts";
import { CONVERSATION } from "../../../support/http/stub-services.ts";
import { listen } from "../../../support/network/sockets.ts";
import { times } from "../../../support/tally.ts";

describe.each(transportKinds)("Error response %s", async (transportKind) => {
  let failure: Error;
  const login = () => {
    throw failure;
  };
  const server = await startSuiteGateway((router) => router.service(AuthService, { login }), {
    transportKind,
  });
  /**
   * Signs in while the services fail.
   * @returns the response and its log lines
   */
  async function failBy(error: Error) {
    failure = error;
    server.logs.length = 0;
    return {
      answer: await server.send("POST", "/auth/login", { email: "a@b.cd", password: "x" }),
      logs: server.logs,
    };
  }

  test.each(
    ReasonSchema.values
      .filter((v) => v.number !== Reason.UNSPECIFIED)
      .map((v) => [v.name.slice("REASON_".length), v] as const),
  )("has the code and HTTP status of the reason %s", async (word, value) => {
    const { code, status } = getOption(value, outcome);
    const { answer } = await failBy(failWith(value.number as Reason, code as Code, "Read me."));
    expect(answer).toMatchObject({
      status,
      body: { statusCode: status, message: "Read me.", code: word },
    });
    expect(Object.keys(answer.body)).toEqual(["statusCode", "message", "error", "code"]);
    expect(answer.headers.get("www-authenticate")).toBe(status === 401 ? "Bearer" : null);
  });

  test("contains violations, Retry-After and RateLimit headers", async () => {
    const violations = [{ field: "messages[0].role", message: "must be known" }];
    const limits = { "ratelimit-limit": "5", "ratelimit-remaining": "0", "ratelimit-reset": "900" };
    const details = { violations, retryAfterSeconds: 900 };
    const metadata = { ...limits, "x-inside": "stays" };
    const { answer } = await failBy(
      failWith(Reason.RATE_LIMITED, Code.ResourceExhausted, "Slow.", details, metadata),
    );
    const error = {
      statusCode: 429,
      message: "Slow.",
      error: "Too Many Requests",
      code: "RATE_LIMITED",
    };
    expect(answer.body).toEqual({ ...error, violations });
    expect(Object.fromEntries(answer.headers)).toMatchObject({ "retry-after": "900", ...limits });
    expect(answer.headers.has("x-inside")).toBe(false);
  });

  test.each([
    { code: Code.NotFound, status: 404, word: "NOT_FOUND" },
    { code: Code.Unauthenticated, status: 401, word: "UNAUTHENTICATED" },
    { code: Code.PermissionDenied, status: 403, word: "FORBIDDEN" },
    { code: Code.InvalidArgument, status: 400, word: "MALFORMED_REQUEST" },
    { code: Code.ResourceExhausted, status: 429, word: "RATE_LIMITED" },
    { code: Code.Unimplemented, status: 501, word: "NOT_IMPLEMENTED" },
    { code: Code.Unavailable, status: 503, word: "UNAVAILABLE" },
    { code: Code.DeadlineExceeded, status: 504, word: "UNAVAILABLE" },
    { code: Code.Internal, status: 500, word: "INTERNAL" },
    { code: Code.DataLoss, status: 500, word: "INTERNAL" },
  ])(
    "for code $code without details has Connect's status and a fixed message",
    async ({ code, status, word }) => {
      const { answer } = await failBy(new ConnectError("connect ECONNREFUSED 10.1.2.3:5432", code));
      expect(answer).toMatchObject({ status, body: { statusCode: status, code: word } });
      expect(answer.text).not.toContain("10.1.2.3");
      if (status === 503) expect(answer.headers.get("retry-after")).toBe("1");
    },
  );

  test.each([
    {
      what: "a bug is masked and logged once",
      error: new TypeError("x is not a function: password=hunter2"),
      logged: 1,
    },
    {
      what: "a bug that the services have logged",
      error: failWith(Reason.UNSPECIFIED, Code.Internal, "hunter2"),
      logged: 0,
    },
    {
      what: "a reason newer than the gateway",
      error: failWith(999 as Reason, Code.Aborted, "hunter2"),
      logged: 1,
    },
  ])(
    "for $what is a masked 500, with the request id in $error lines of the log",
    async ({ error, logged }) => {
      const { answer, logs } = await failBy(error);
      expect(answer).toMatchObject({
        status: 500,
        body: { code: "INTERNAL", error: "Internal Server Error" },
      });
      expect(answer.text).not.toContain("hunter2");
      const lines = logs.filter((line) => (line.level as number) >= 50);
      expect(lines.map(({ requestId }) => requestId)).toEqual(
        times(logged, () => answer.headers.get("x-request-id")),
      );
    },
  );
});

const { NGHTTP2_ENHANCE_YOUR_CALM, NGHTTP2_REFUSED_STREAM, NGHTTP2_INTERNAL_ERROR } =
  http2.constants;
const endingBy = (code: number) =>
  http2.createServer().on("stream", (stream) => stream.on("error", () => {}).close(code));
type Failing = { what: string; services: string | net.Server | http2.Http2Server };
const FAILING: Failing[] = [
  {
    what: "that reset the connection",
    services: net.createServer((socket) => socket.resetAndDestroy()),
  },
  {
    what: "that end a call with ENHANCE_YOUR_CALM",
    services: endingBy(NGHTTP2_ENHANCE_YOUR_CALM),
  },
  { what: "that end a call with REFUSED_STREAM", services: endingBy(NGHTTP2_REFUSED_STREAM) },
  { what: "that end a call with INTERNAL_ERROR", services: endingBy(NGHTTP2_INTERNAL_ERROR) },
  { what: "that do not run", services: "http://127.0.0.1:1" },
  { what: "at an unusable broadcast address", services: "http://127.255.255.255:50051" },
];
test.for(FAILING)(
  "Error response: services $what return 503 with Retry-After and without a host name",
  async ({ services }) => {
    const isUrl = typeof services === "string";
    const transport = createServicesTransport(
      isUrl ? services : `http://127.0.0.1:${await listen(services)}`,
    );
    const { send, close } = await startGateway(transport);
    const requests = [send("GET", "/user/profile"), send("POST", "/ai/stream", CONVERSATION)];
    for (const answer of await Promise.all(requests)) {
      expect(answer).toMatchObject({ status: 503, body: { code: "UNAVAILABLE" } });
      expect(answer.headers.get("retry-after")).toBe("1");
      expect(answer.text).not.toContain("127.");
    }
    await close();
    transport.close();
    if (!isUrl) await new Promise((resolve) => services.close(resolve));
  },
);
