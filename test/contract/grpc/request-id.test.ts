import type { DescService } from "@bufbuild/protobuf";
import { type CallOptions, ConnectError, createClient } from "@connectrpc/connect";
import {
  createConnectTransport,
  createGrpcTransport,
  createGrpcWebTransport,
} from "@connectrpc/connect-node";
import { describe, expect, test } from "vitest";
import { AuthService } from "../../../gen/gatehouse/account/v1/auth_service_pb.ts";
import { AIService } from "../../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import { conversationOf } from "../../support/ai/calls.ts";
import { testApp } from "../../support/app.ts";

const app = await testApp();
const options = { baseUrl: app.grpcUrl, httpVersion: "2" } as const;
const transports = {
  gRPC: createGrpcTransport(options),
  "gRPC-Web": createGrpcWebTransport(options),
  Connect: createConnectTransport(options),
};
const NEW = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

describe.each(Object.entries(transports))("Request id over %s", (protocol, transport) => {
  const client = <T extends DescService>(service: T) => createClient(service, transport);
  const chat = async (callOptions: CallOptions) => {
    for await (const _ of client(AIService).streamChat(conversationOf("case: plain"), callOptions));
  };

  /** The request id of a response, for successes and failures. */
  async function idOf(
    call: (callOptions: CallOptions) => Promise<unknown>,
    headers: Record<string, string> = {},
  ) {
    let id: string | null = null;
    const onHeader = (header: Headers) => {
      id = header.get("x-request-id");
    };
    const failure = await call({ headers, onHeader }).then(() => undefined, ConnectError.from);
    return { id: id ?? failure?.metadata.get("x-request-id"), failed: failure !== undefined };
  }

  test("is the caller's, or a new one if that is missing or invalid, for successes, failures and streams", async () => {
    const { user, headers } = await app.signIn();
    const login = (request: object) => (callOptions: CallOptions) =>
      client(AuthService).login(request, callOptions);
    for (const [what, call, caller, failed] of [
      ["success", login(user.credentials), {}, false],
      ["failure", login({ email: "not-an-address" }), {}, true],
      ["stream", chat, headers, false],
      ["refused-stream", chat, {}, true],
    ] as const) {
      const given = `${protocol}-${what}`;
      expect(await idOf(call, { ...caller, "x-request-id": given }), what).toEqual({
        id: given,
        failed,
      });
      const renewed = { id: expect.stringMatching(NEW), failed };
      expect(await idOf(call, caller), what).toEqual(renewed);
      for (const invalid of ["not valid", "x".repeat(129)])
        expect(await idOf(call, { ...caller, "x-request-id": invalid }), what).toEqual(renewed);
    }
  });

  test("is the same in the response, the log and the audit log", async () => {
    const user = await app.addUser();
    const { id } = await idOf((callOptions) =>
      client(AuthService).login(user.credentials, callOptions),
    );
    const events = await app.sql("select event from audit_events where request_id = ?", [id]);
    expect(events).toEqual([{ event: "auth.login" }]);
    const lines = app.logs
      .map((line) => JSON.parse(line))
      .filter(({ requestId }) => requestId === id);
    expect(lines).toEqual([
      expect.objectContaining({ rpc: "gatehouse.account.v1.AuthService/Login" }),
    ]);
  });
});
