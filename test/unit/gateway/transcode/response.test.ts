import { Code } from "@connectrpc/connect";
import { SignJWT } from "jose";
import { describe, expect, test } from "vitest";
import { AuthService } from "../../../../gen/gatehouse/account/v1/auth_service_pb.ts";
import { UserService } from "../../../../gen/gatehouse/account/v1/user_service_pb.ts";
import { Reason } from "../../../../gen/gatehouse/platform/v1/failure_pb.ts";
import {
  failWith,
  type Routes,
  type Settings,
  start,
  transportKinds,
} from "../../../support/http/gateway.ts";
import { forTest } from "../../../support/suites.ts";

const NOW = new Date("2026-11-21T12:00:00Z");

describe.each(transportKinds)("Response %s", (transportKind) => {
  const open = (routes: Routes, settings: Settings = {}) =>
    forTest(start(routes, { transportKind, ...settings }));

  test("is cacheable if the policy says so, and never if it is an error", async () => {
    let calls = 0;
    const server = await open((router) =>
      router.service(AuthService, {
        listKeys: () => {
          if (calls++ > 0) throw failWith(Reason.UNAVAILABLE, Code.Unavailable);
          return {};
        },
      }),
    );
    const kept = async () =>
      (await server.send("GET", "/.well-known/jwks.json")).headers.get("cache-control");
    expect([await kept(), await kept()]).toEqual(["public, max-age=300", "no-store"]);
  });

  test("to HEAD equals the response to GET without its body", async () => {
    const server = await open((router) =>
      router.service(UserService, { getProfile: () => ({ user: { id: "1" } }) }),
    );
    const head = await server.send("HEAD", "/user/profile");
    const get = await server.send("GET", "/user/profile");
    expect(head).toMatchObject({ status: 200, text: "" });
    expect(head.headers.get("content-length")).toBe(get.headers.get("content-length"));
  });

  test.each([
    ["http://localhost:3000", ""],
    ["https://api.example.com", "; Secure"],
    ["HTTPS://API.example.com", "; Secure"],
  ])(
    "sets a cookie with the lifetime of the refresh token, for PUBLIC_URL %s",
    async (publicUrl, secure) => {
      const week = 7 * 86_400;
      const refreshToken = await new SignJWT({ type: "refresh" })
        .setProtectedHeader({ alg: "HS256" })
        .setExpirationTime(NOW.getTime() / 1000 + week)
        .sign(new Uint8Array(32));
      const login = () => ({ accessToken: "a", refreshToken });
      const server = await open((router) => router.service(AuthService, { login }), {
        env: { PUBLIC_URL: publicUrl },
        clock: { now: () => new Date(NOW.getTime() + 600) }, // tokens have whole seconds
      });
      const answer = await server.send("POST", "/auth/login", { email: "a@b.cd", password: "x" });
      expect(answer.body).toEqual({ accessToken: "a", refreshToken, requiresMfa: false });
      expect(answer.headers.getSetCookie()).toEqual([
        `refreshToken=${refreshToken}; Max-Age=${week}; Path=/auth; HttpOnly${secure}; SameSite=Strict`,
      ]);
      expect(answer.headers.has("strict-transport-security")).toBe(secure !== "");
    },
  );

  const cleared = ["refreshToken=; Max-Age=0; Path=/auth; HttpOnly; SameSite=Strict"];
  test.each([
    { path: "/auth/logout", what: "success", cookies: cleared },
    {
      path: "/auth/logout",
      what: "UNAUTHENTICATED",
      error: failWith(Reason.UNAUTHENTICATED, Code.Unauthenticated),
      cookies: [],
    },
    {
      path: "/auth/refresh",
      what: "REFRESH_TOKEN_INVALID",
      error: failWith(Reason.REFRESH_TOKEN_INVALID, Code.Unauthenticated),
      cookies: cleared,
    },
    {
      path: "/auth/refresh",
      what: "RATE_LIMITED",
      error: failWith(Reason.RATE_LIMITED, Code.ResourceExhausted),
      cookies: [],
    },
    {
      path: "/auth/refresh",
      what: "UNAVAILABLE",
      error: failWith(Reason.UNAVAILABLE, Code.Unavailable),
      cookies: [],
    },
    {
      path: "/auth/refresh",
      what: "INTERNAL",
      error: failWith(Reason.UNSPECIFIED, Code.Internal),
      cookies: [],
    },
  ])(
    "to POST $path clears the cookie only if the session has ended: $what",
    async ({ path, error, cookies }) => {
      const answer = () => {
        if (error) throw error;
        return {};
      };
      const server = await open((router) =>
        router.service(AuthService, { logout: answer, refresh: answer }),
      );
      expect((await server.send("POST", path)).headers.getSetCookie()).toEqual(cookies);
    },
  );
});
