import type { Interceptor } from "@connectrpc/connect";
import { expect, test } from "vitest";
import { AuthService } from "../../../gen/gatehouse/account/v1/auth_service_pb.ts";
import { type Unread, unreadOf } from "../../../services/platform/rpc/unread.ts";
import {
  type Routes,
  start,
  type TransportKind,
  transportKinds,
} from "../../support/http/gateway.ts";
import { forTest } from "../../support/suites.ts";

const routes: Routes = (router) => router.service(AuthService, { login: () => ({}) });

/** Sends a login with a field of a wrong type. */
async function sendWrongType(transportKind: TransportKind) {
  let unread: Unread | undefined;
  let metadata: string[] = [];
  const observe: Interceptor = (next) => (req) => {
    unread = unreadOf(req.header, req.contextValues);
    metadata = [...req.header.keys()];
    return next(req);
  };
  const server = await forTest(start(routes, { transportKind, interceptors: [observe] }));
  await server.send("POST", "/auth/login", { email: 7, password: "x" });
  return { unread, metadata };
}

test.each(transportKinds)("Unread fields of a request reach the services %s", async (kind) => {
  const { unread } = await sendWrongType(kind);
  expect(unread?.typeErrors?.map(({ field }) => field)).toEqual(["email"]);
});

test("Unread fields of a request are not in the metadata in process", async () => {
  const { metadata } = await sendWrongType("in process");
  expect(metadata).not.toContain("x-gatehouse-type-errors");
});
