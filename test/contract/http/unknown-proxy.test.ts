import { expect, onTestFinished, test } from "vitest";
import { AuthService } from "../../../gen/gatehouse/account/v1/auth_service_pb.ts";
import { startApp } from "../../support/app.ts";

test("X-Forwarded-For from an address that TRUST_PROXY does not list: is ignored, with one warning per port and hour", async () => {
  const app = await startApp({ mode: "embedded", env: { TRUST_PROXY: "10.0.0.1" } });
  onTestFinished(() => app.close());
  const warnings = () => app.logs.filter((line) => line.includes("TRUST_PROXY does not list"));
  const forwarded = { "x-forwarded-for": "203.0.113.7" };
  for (let i = 0; i < 3; i++) await app.httpClient().send("GET", "/health/live", undefined, forwarded);
  expect(warnings()).toHaveLength(1);
  expect(JSON.parse(warnings()[0] as string)).toMatchObject({ address: "127.0.0.1" });
  for (let i = 0; i < 3; i++) await app.grpc(AuthService).listKeys({}, { headers: forwarded });
  expect(warnings()).toHaveLength(2);
});
