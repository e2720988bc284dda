import type { DescService } from "@bufbuild/protobuf";
import { type CallOptions, ConnectError, createClient } from "@connectrpc/connect";
import { createConnectTransport, createGrpcTransport, createGrpcWebTransport } from "@connectrpc/connect-node";
import { describe, expect, test } from "vitest";
import { AuthService } from "../../../gen/gatehouse/account/v1/auth_service_pb.ts";
import { AIService } from "../../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import { conversationOf } from "../../support/ai-calls.ts";
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
  async function idOf(call: (callOptions: CallOptions) => Promise<unknown>, headers: Record<string, string> = {}) {
    let id: string | null = null;
    const onHeader = (header: Headers) => {
      id = header.get("x-request-id");
    };
    const failure = await call({ headers, onHeader }).then(
      () => undefined,
      (thrown) => ConnectError.from(thrown),
    );
    return { id: id ?? failure?.metadata.get("x-request-id"), failed: failure !== undefined };
  }

  test("is the caller's, or a new one instead of an invalid one, for successes, failures and streams", async () => {
    const { user, accessToken } = await app.signIn();
    const authorization = `Bearer ${accessToken}`;
    const calls = {
      success: (callOptions: CallOptions) => client(AuthService).login(user.credentials, callOptions),
      failure: (callOptions: CallOptions) => client(AuthService).login({ email: "not-an-address" }, callOptions),
      stream: (callOptions: CallOptions) =>
        chat({ ...callOptions, headers: { ...(callOptions.headers as Record<string, string>), authorization } }),
      "refused stream": chat,
    };
    for (const [what, call] of Object.entries(calls)) {
      const failed = what === "failure" || what === "refused stream";
      const given = `${protocol}-${what.replace(" ", "_")}`;
      expect(await idOf(call, { "x-request-id": given }), what).toEqual({ id: given, failed });
      expect(await idOf(call), what).toEqual({ id: expect.stringMatching(NEW), failed });
      for (const invalid of ["not valid", "x".repeat(129)]) {
        const answered = await idOf(call, { "x-request-id": invalid });
        expect(answered, what).toEqual({ id: expect.stringMatching(NEW), failed });
      }
    }
  });

  test("is the same in response, log and audit log", async () => {
    const user = await app.addUser();
    const { id } = await idOf((callOptions) => client(AuthService).login(user.credentials, callOptions));
    const events = await app.sql("select event from audit_events where request_id = ?", [id]);
    expect(events).toEqual([{ event: "auth.login" }]);
    const lines = app.logs.map((line) => JSON.parse(line)).filter(({ requestId }) => requestId === id);
    expect(lines).toEqual([expect.objectContaining({ rpc: "gatehouse.account.v1.AuthService/Login" })]);
  });
});
