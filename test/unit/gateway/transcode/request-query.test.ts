import { describe, expect, test } from "vitest";
import { transportKinds } from "../../../support/gateway.ts";
import { blamed, startRecordingServices } from "../../../support/stub-services.ts";

describe.each(transportKinds)("Query, path and cookies %s", async (transportKind) => {
  const server = await startRecordingServices(transportKind);

  test("convert query values by the types of their fields", async () => {
    const query = "limit=20&page=2&search=a%20b%2Bc+d&role=admin&emailVerified=true&locked=false&unknown=1&&";
    expect((await server.send("GET", `/admin/users?${query}`)).status).toBe(200);
    expect(server.last()).toMatchObject({
      limit: 20,
      page: 2,
      search: "a b+c d",
      role: "admin",
      emailVerified: true,
      locked: false,
    });
    await server.send("GET", "/admin/audit-logs?from=2026-01-31T12:00:00.5%2B01:00");
    expect(server.last()).toMatchObject({ from: { seconds: 1769857200n, nanos: 500_000_000 } });
    await server.send("GET", "/admin/users");
    expect(Object.hasOwn(server.last() ?? {}, "limit")).toBe(false);
  });

  test.each([
    ["users?limit=ten", "limit"],
    ["users?limit=", "limit"],
    ["users?limit=0x10", "limit"],
    ["users?limit=1e1", "limit"],
    ["users?limit=%2B1", "limit"],
    ["users?limit=1.5", "limit"],
    ["users?limit=1&limit=2", "limit"],
    ["users?search=a&search=b", "search"],
    ["users?emailVerified=1", "emailVerified"],
    ["users?emailVerified=TRUE", "emailVerified"],
    ["users?locked", "locked"],
    ["users?search=%00", "search"],
    ["audit-logs?from=yesterday", "from"],
    ["audit-logs?from=2026-13-01T00:00:00Z", "from"],
    ["audit-logs?from=2026-01-01", "from"],
    ["audit-logs?from=2026-02-30T00:00:00Z", "from"],
    ["users/a%00b", "id"],
    ["users?search=%zz", undefined],
    ["users?search=%ff", undefined],
    ["users?%c3=1", undefined],
  ])("refuse %s, by the name of the field if it can be read", async (path, field) => {
    const answer = await server.send("GET", `/admin/${path}`);
    const code = field ? "VALIDATION_FAILED" : "MALFORMED_REQUEST";
    expect(answer).toMatchObject({ status: 400, body: { code } });
    expect(blamed(answer)).toEqual(field && [field]);
  });

  test("pass on an over-long id in a path, so that its method can name the field", async () => {
    const id = "a".repeat(10_000);
    await server.send("DELETE", `/user/sessions/${id}`);
    expect(server.last()).toMatchObject({ id });
  });

  test("read a cookie field from its cookie only", async () => {
    const cookie = "theme=dark; refreshToken=abc.def.ghi; myRefreshToken=other";
    await server.send("POST", "/auth/refresh", { refreshToken: "body" }, { cookie });
    expect(server.last()).toMatchObject({ refreshToken: "abc.def.ghi" });
    await server.send("POST", "/auth/refresh?refreshToken=query", { refreshToken: "body" });
    expect(server.last()).toMatchObject({ refreshToken: "" });
    const twice = { cookie: "refreshToken=abc.def.ghi; refreshToken=other" };
    await server.send("POST", "/auth/refresh", undefined, twice);
    expect(server.last()).toMatchObject({ refreshToken: "" });
  });
});
