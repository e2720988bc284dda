import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import { Code } from "@connectrpc/connect";
import { SignJWT } from "jose";
import { describe, expect, test } from "vitest";
import { AuthService } from "../../../../gen/gatehouse/account/v1/auth_service_pb.ts";
import { UserService } from "../../../../gen/gatehouse/account/v1/user_service_pb.ts";
import { AIService } from "../../../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import { Reason } from "../../../../gen/gatehouse/platform/v1/failure_pb.ts";
import { failWith, NOW, openGateways, transportKinds } from "../../../support/gateway.ts";

describe.each(transportKinds)("Response %s", (transportKind) => {
  const server = openGateways(transportKind);
  const { open, failing, login } = server;

  test("is the field that response_body names, with defaults written out and unset optional fields absent", async () => {
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
    const profile = await server.send("GET", "/user/profile");
    expect(profile.body).toEqual({ ...user, createdAt: at, updatedAt: at });
    expect(profile.headers.get("content-type")).toBe("application/json; charset=utf-8");
    expect((await server.send("GET", "/user/sessions")).body).toEqual([]);
    expect((await server.send("GET", "/user/export")).body).toEqual({ a: [1, null, { b: "c" }] });
    expect((await server.send("GET", "/ai/providers")).body).toEqual([
      { provider: "provider-a", defaultModel: "", configured: false, models: [] },
    ]);
  });

  test("is cacheable if the policy says so, and never if it is an error", async () => {
    let calls = 0;
    await open((router) =>
      router.service(AuthService, {
        listKeys: () => {
          if (calls++ > 0) throw failWith(Reason.UNAVAILABLE, Code.Unavailable);
          return {};
        },
      }),
    );
    const kept = async () => (await server.send("GET", "/.well-known/jwks.json")).headers.get("cache-control");
    expect([await kept(), await kept()]).toEqual(["public, max-age=300", "no-store"]);
  });

  test("to HEAD equals the response to GET without its body", async () => {
    await open((router) => router.service(UserService, { getProfile: () => ({ user: { id: "1" } }) }));
    const head = await server.send("HEAD", "/user/profile");
    const get = await server.send("GET", "/user/profile");
    expect(head).toMatchObject({ status: 200, text: "" });
    expect(head.headers.get("content-length")).toBe(get.headers.get("content-length"));
  });

  describe("with a refresh token", () => {
    const token = (exp: number) =>
      new SignJWT({ type: "refresh" })
        .setProtectedHeader({ alg: "HS256" })
        .setExpirationTime(exp)
        .sign(new Uint8Array(32));
    const DAY = 86_400;

    test.each([
      ["http://localhost:3000", ""],
      ["https://api.example.com", "; Secure"],
      ["HTTPS://API.example.com", "; Secure"],
    ])("sets a cookie with the token's lifetime, for PUBLIC_URL %s", async (publicUrl, secure) => {
      const refreshToken = await token(NOW.getTime() / 1000 + 7 * DAY);
      await open((router) => router.service(AuthService, { login: () => ({ accessToken: "a", refreshToken }) }), {
        env: { PUBLIC_URL: publicUrl },
        clock: { now: () => new Date(NOW.getTime() + 600) }, // tokens have whole seconds
      });
      const answer = await login();
      expect(answer.body).toEqual({ accessToken: "a", refreshToken, requiresMfa: false });
      expect(answer.headers.getSetCookie()).toEqual([
        `refreshToken=${refreshToken}; Max-Age=${7 * DAY}; Path=/auth; HttpOnly${secure}; SameSite=Strict`,
      ]);
      expect(answer.headers.has("strict-transport-security")).toBe(secure !== "");
    });

    test("sets no cookie if a second factor is required", async () => {
      await open((router) => router.service(AuthService, { login: () => ({ requiresMfa: true, tempToken: "t" }) }));
      const answer = await login();
      expect(answer.body).toEqual({ requiresMfa: true, tempToken: "t" });
      expect(answer.headers.getSetCookie()).toEqual([]);
    });
  });

  describe("clears the cookie", () => {
    const cleared = ["refreshToken=; Max-Age=0; Path=/auth; HttpOnly; SameSite=Strict"];

    test("after a successful logout only", async () => {
      let fails = false;
      await open((router) =>
        router.service(AuthService, {
          logout: () => {
            if (fails) throw failWith(Reason.UNAUTHENTICATED, Code.Unauthenticated);
            return { message: "Bye." };
          },
        }),
      );
      expect((await server.send("POST", "/auth/logout")).headers.getSetCookie()).toEqual(cleared);
      fails = true;
      expect((await server.send("POST", "/auth/logout")).headers.getSetCookie()).toEqual([]);
    });

    test.each([
      ["REFRESH_TOKEN_INVALID", Reason.REFRESH_TOKEN_INVALID, Code.Unauthenticated, cleared],
      ["RATE_LIMITED", Reason.RATE_LIMITED, Code.ResourceExhausted, []],
      ["UNAVAILABLE", Reason.UNAVAILABLE, Code.Unavailable, []],
      ["INTERNAL", Reason.UNSPECIFIED, Code.Internal, []],
    ])("for a refresh with a definite 401, otherwise not: %s", async (_name, reason, code, cookies) => {
      await failing(() => failWith(reason, code));
      expect((await server.send("POST", "/auth/refresh")).headers.getSetCookie()).toEqual(cookies);
    });
  });
});
