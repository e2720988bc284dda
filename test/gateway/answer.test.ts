import { getOption } from "@bufbuild/protobuf";
import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError } from "@connectrpc/connect";
import { SignJWT } from "jose";
import { afterEach, describe, expect, test } from "vitest";
import { AdminService } from "../../gen/gatehouse/account/v1/admin_service_pb.ts";
import { AuthService } from "../../gen/gatehouse/account/v1/auth_service_pb.ts";
import { UserService } from "../../gen/gatehouse/account/v1/user_service_pb.ts";
import { AIService } from "../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import { FailureSchema, outcome, Reason, ReasonSchema } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import type { Routes, Settings, Started } from "./harness.ts";
import { failWith, start, ways } from "./harness.ts";

const NOW = new Date("2026-11-21T12:00:00Z");

describe.each(ways)("an answer %s", (way) => {
  let edge: Started;
  const open = async (routes: Routes, settings: Settings = {}) => {
    edge = await start(routes, { way, clock: { now: () => NOW }, ...settings });
  };
  afterEach(() => edge.close());
  const failing = (error: () => unknown, settings?: Settings) =>
    open(
      (router) =>
        router.service(AuthService, {
          login: () => {
            throw error();
          },
          refresh: () => {
            throw error();
          },
        }),
      settings,
    );
  const login = () => edge.send("POST", "/auth/login", { email: "a@b.cd", password: "x" });

  test("is the bare field that response_body names, defaults written out, absent what is optional and unset", async () => {
    await open((router) =>
      router
        .service(UserService, {
          getProfile: () => ({
            user: { id: "1", createdAt: timestampFromDate(NOW), updatedAt: timestampFromDate(NOW) },
          }),
          listSessions: () => ({}),
          exportData: () => ({ data: { a: [1, null, { b: "c" }] } }),
        })
        .service(AIService, { listProviders: () => ({ providers: [{ provider: "provider-a" }] }) }),
    );
    const user = { id: "1", email: "", name: "", role: "", emailVerified: false, mfaEnabled: false };
    const at = "2026-11-21T12:00:00Z";
    expect((await edge.send("GET", "/user/profile")).body).toEqual({ ...user, createdAt: at, updatedAt: at });
    expect((await edge.send("GET", "/user/sessions")).body).toEqual([]);
    expect((await edge.send("GET", "/user/export")).body).toEqual({ a: [1, null, { b: "c" }] });
    expect((await edge.send("GET", "/ai/providers")).body).toEqual([
      { provider: "provider-a", defaultModel: "", configured: false },
    ]);
  });

  test("has the status of its policy, JSON in UTF-8, and is stored nowhere", async () => {
    await open((router) =>
      router.service(AuthService, {
        register: () => ({ message: "é", userId: "1" }),
        verifyEmail: () => ({ message: "ok" }),
      }),
    );
    const register = { email: "a@b.cd", password: "Secret-1!", name: "Ann", acceptTerms: true };
    const answer = await edge.send("POST", "/auth/register", register);
    expect(answer).toMatchObject({ status: 201, body: { message: "é", userId: "1" } });
    expect(answer.headers.get("content-type")).toBe("application/json; charset=utf-8");
    expect(answer.headers.get("cache-control")).toBe("no-store");
    expect((await edge.send("POST", "/auth/verify-email", { token: "t" })).status).toBe(200);
  });

  test("to HEAD is that to GET without its body", async () => {
    await open((router) => router.service(UserService, { getProfile: () => ({ user: { id: "1" } }) }));
    const head = await edge.send("HEAD", "/user/profile");
    const get = await edge.send("GET", "/user/profile");
    expect(head).toMatchObject({ status: 200, text: "" });
    expect(head.headers.get("content-length")).toBe(get.headers.get("content-length"));
  });

  describe("that carries a refresh token", () => {
    const token = (exp: number) =>
      new SignJWT({ type: "refresh" })
        .setProtectedHeader({ alg: "HS256" })
        .setExpirationTime(exp)
        .sign(new Uint8Array(32));
    const DAY = 86_400;

    test.each([
      ["http://localhost:3000", ""],
      ["https://api.example.com", "; Secure"],
    ])("sets a cookie that lives as long, reached by %s", async (publicUrl, secure) => {
      const refreshToken = await token(NOW.getTime() / 1000 + 7 * DAY);
      await open((router) => router.service(AuthService, { login: () => ({ accessToken: "a", refreshToken }) }), {
        env: { PUBLIC_URL: publicUrl },
      });
      const answer = await login();
      expect(answer.body).toEqual({ accessToken: "a", refreshToken, requiresMfa: false });
      expect(answer.headers.getSetCookie()).toEqual([
        `refreshToken=${refreshToken}; Max-Age=${7 * DAY}; Path=/auth; HttpOnly; SameSite=Strict${secure}`,
      ]);
    });

    test("sets none where a second factor is due", async () => {
      await open((router) => router.service(AuthService, { login: () => ({ requiresMfa: true, tempToken: "t" }) }));
      const answer = await login();
      expect(answer.body).toEqual({ requiresMfa: true, tempToken: "t" });
      expect(answer.headers.getSetCookie()).toEqual([]);
    });
  });

  describe("clears the cookie", () => {
    const cleared = ["refreshToken=; Max-Age=0; Path=/auth; HttpOnly; SameSite=Strict"];

    test("with a successful logout only", async () => {
      let fails = false;
      await open((router) =>
        router.service(AuthService, {
          logout: () => {
            if (fails) throw failWith(Reason.UNAUTHENTICATED, Code.Unauthenticated);
            return { message: "Bye." };
          },
        }),
      );
      expect((await edge.send("POST", "/auth/logout")).headers.getSetCookie()).toEqual(cleared);
      fails = true;
      expect((await edge.send("POST", "/auth/logout")).headers.getSetCookie()).toEqual([]);
    });

    test.each([
      ["REFRESH_TOKEN_INVALID", Reason.REFRESH_TOKEN_INVALID, Code.Unauthenticated, cleared],
      ["RATE_LIMITED", Reason.RATE_LIMITED, Code.ResourceExhausted, []],
      ["UNAVAILABLE", Reason.UNAVAILABLE, Code.Unavailable, []],
      ["INTERNAL", Reason.UNSPECIFIED, Code.Internal, []],
    ])("when a refresh is answered by a definite 401, not by %s otherwise", async (_name, reason, code, cookies) => {
      await failing(() => failWith(reason, code));
      expect((await edge.send("POST", "/auth/refresh")).headers.getSetCookie()).toEqual(cookies);
    });
  });

  test.each(
    ReasonSchema.values
      .filter((v) => v.number !== Reason.UNSPECIFIED)
      .map((v) => [v.name.slice("REASON_".length), v] as const),
  )("tells the reason %s by its word and its HTTP status", async (word, value) => {
    const { code, status } = getOption(value, outcome);
    await failing(() => failWith(value.number as Reason, code as Code, "Read me."));
    const answer = await login();
    expect(answer).toMatchObject({ status, body: { statusCode: status, message: "Read me.", code: word } });
    expect(Object.keys(answer.body)).toEqual(["statusCode", "message", "error", "code"]);
    expect(answer.headers.get("www-authenticate")).toBe(status === 401 ? "Bearer" : null);
  });

  test("passes on violations, the time to retry, and the limits, of successes and failures", async () => {
    const violations = [{ field: "messages[0].role", message: "must be known" }];
    const limits = {
      "ratelimit-limit": "5",
      "ratelimit-remaining": "0",
      "ratelimit-reset": "900",
      "x-inside": "stays",
    };
    await failing(() =>
      failWith(Reason.RATE_LIMITED, Code.ResourceExhausted, "Slow.", { violations, retryAfterSeconds: 900 }, limits),
    );
    const answer = await login();
    expect(answer.body).toEqual({
      statusCode: 429,
      message: "Slow.",
      error: "Too Many Requests",
      code: "RATE_LIMITED",
      violations,
    });
    expect(Object.fromEntries(answer.headers)).toMatchObject({
      "retry-after": "900",
      "ratelimit-limit": "5",
      "ratelimit-remaining": "0",
      "ratelimit-reset": "900",
    });
    expect(answer.headers.has("x-inside")).toBe(false);
  });

  test("passes on the limits of a success", async () => {
    await open((router) =>
      router.service(UserService, {
        getProfile: (_request, context) => {
          context.responseHeader.set("RateLimit-Remaining", "99");
          return { user: {} };
        },
      }),
    );
    expect((await edge.send("GET", "/user/profile")).headers.get("ratelimit-remaining")).toBe("99");
  });

  test.each([
    [Code.NotFound, 404, "NOT_FOUND"],
    [Code.Unauthenticated, 401, "UNAUTHENTICATED"],
    [Code.PermissionDenied, 403, "FORBIDDEN"],
    [Code.InvalidArgument, 400, "MALFORMED_REQUEST"],
    [Code.ResourceExhausted, 429, "RATE_LIMITED"],
    [Code.Unimplemented, 501, "NOT_IMPLEMENTED"],
    [Code.Unavailable, 503, "UNAVAILABLE"],
    [Code.DeadlineExceeded, 504, "UNAVAILABLE"],
    [Code.Internal, 500, "INTERNAL"],
    [Code.DataLoss, 500, "INTERNAL"],
  ])("to a failure of code %s without detail has Connect's status and words of its own", async (code, status, word) => {
    await failing(() => new ConnectError("connect ECONNREFUSED 10.1.2.3:5432", code));
    const answer = await login();
    expect(answer).toMatchObject({ status, body: { statusCode: status, code: word } });
    expect(answer.text).not.toContain("10.1.2.3");
    if (status === 503) expect(answer.headers.get("retry-after")).toBe("1");
  });

  test("to a bug is masked and logged once, with the request's id", async () => {
    await failing(() => new TypeError("x is not a function: password=hunter2"));
    const answer = await login();
    expect(answer).toMatchObject({ status: 500, body: { code: "INTERNAL", error: "Internal Server Error" } });
    expect(answer.text).not.toContain("hunter2");
    const errors = edge.logs.filter((line) => (line.level as number) >= 50);
    expect(errors).toMatchObject([{ requestId: answer.headers.get("x-request-id") }]);
  });

  test("to a bug that the services have masked and logged is not logged again", async () => {
    await failing(() => failWith(Reason.UNSPECIFIED, Code.Internal, "internal"));
    expect(await login()).toMatchObject({ status: 500, body: { code: "INTERNAL" } });
    expect(edge.logs.filter((line) => (line.level as number) >= 50)).toEqual([]);
  });

  test("to a reason that is newer than the gateway is 500", async () => {
    await failing(
      () => new ConnectError("?", Code.Aborted, undefined, [{ desc: FailureSchema, value: { reason: 999 as Reason } }]),
    );
    expect(await login()).toMatchObject({ status: 500, body: { code: "INTERNAL" } });
  });

  test("lists and pages as the admin sees them", async () => {
    await open((router) =>
      router.service(AdminService, {
        listUsers: () => ({ items: [{ id: "1", locked: true }], nextCursor: "c", total: 2 }),
      }),
    );
    expect((await edge.send("GET", "/admin/users")).body).toMatchObject({
      items: [{ locked: true }],
      nextCursor: "c",
      total: 2,
    });
  });
});

test("services that are away are 503 with a time to retry, and name no host", async () => {
  const edge = await start((router) => router.service(AuthService, {}), { way: "over gRPC" });
  await edge.stopServices();
  const answer = await edge.send("GET", "/user/profile");
  expect(answer).toMatchObject({ status: 503, body: { code: "UNAVAILABLE" } });
  expect(answer.headers.get("retry-after")).toBe("1");
  expect(answer.text).not.toContain("127.0.0.1");
  await edge.close();
});
