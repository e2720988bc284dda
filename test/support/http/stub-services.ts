// Stub services: recorded requests, chat streams, accounts, transports.

import type { ConnectError, HandlerContext, Interceptor, Transport } from "@connectrpc/connect";
import { createAsyncIterable } from "@connectrpc/connect/protocol";
import { expect } from "vitest";
import { AdminService } from "../../../gen/gatehouse/account/v1/admin_service_pb.ts";
import { AuthService } from "../../../gen/gatehouse/account/v1/auth_service_pb.ts";
import { UserService } from "../../../gen/gatehouse/account/v1/user_service_pb.ts";
import { AIService } from "../../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import { createErrorMapper, onComplete } from "../../../services/interceptors/observe.ts";
import { unreadOf } from "../../../services/platform/rpc/unread.ts";
import { validate } from "../../../services/platform/rpc/validation.ts";
import { silent } from "../log.ts";
import { forTest } from "../suites.ts";
import {
  type Routes,
  type Settings,
  start,
  startStubServices,
  startSuiteGateway,
  type TransportKind,
} from "./gateway.ts";

/** The interceptors that reject a request with wrong types. */
const mapError = createErrorMapper(silent, () => {});
const mapErrors: Interceptor = (next) => (req) =>
  onComplete(next, req, (error) => error && mapError(error, req));
const validateTypes: Interceptor = (next) => {
  const validated = validate()(next);
  return (req) => {
    const { fault, typeErrors } = unreadOf(req.header, req.contextValues);
    return fault || typeErrors ? validated(req) : next(req);
  };
};
const interceptors = [mapErrors, validateTypes];

/**
 * Starts a gateway for one suite. Its services answer every valid request with an empty message.
 */
export async function startRecordingServices(
  transportKind: TransportKind,
  settings: Settings = {},
) {
  let last: object | undefined;
  const record = (message: object) => {
    last = message;
    return {};
  };
  const routes: Routes = (router) => {
    for (const service of [AuthService, UserService, AdminService, AIService]) {
      const unary = service.methods.filter(({ methodKind }) => methodKind === "unary");
      router.service(
        service,
        Object.fromEntries(unary.map(({ localName }) => [localName, record])),
      );
    }
  };
  const server = await startSuiteGateway(routes, { transportKind, interceptors, ...settings });
  const login = (body: unknown, headers?: Record<string, string>) =>
    server.send("POST", "/auth/login", body, headers);
  /** `last` is the last request message that reached the services. */
  return { ...server, last: () => last, login };
}

/** The fields in the violations of a response. */
export const blamed = (answer: { body: { violations?: { field: string }[] } }) =>
  answer.body.violations?.map((violation) => violation.field);

export const CONVERSATION = { provider: "p", messages: [{ role: "user", content: "Hi" }] };

/**
 * Starts a gateway with a stub of the AI service for one test.
 * @param chat yields the chunks of a stream
 */
export async function startChatServices(
  transportKind: TransportKind,
  chat: (context: HandlerContext) => AsyncIterable<{ chunk: string }>,
  settings: Settings = {},
) {
  const routes: Routes = (router) =>
    router.service(AIService, { streamChat: (_request, context) => chat(context) });
  const server = await forTest(start(routes, { transportKind, ...settings }));
  const ask = (signal?: AbortSignal) =>
    fetch(`${server.url}/ai/stream`, {
      method: "POST",
      headers: { "content-type": "application/json", "x-request-id": "id-1" },
      body: JSON.stringify(CONVERSATION),
      signal: signal ?? null,
    });
  return { ...server, ask };
}

/** Stub services with one account, and the metadata of the last GetProfile. */
export function stubAccounts(): { routes: Routes; metadata: () => Record<string, string> } {
  let metadata: Record<string, string> = {};
  const routes: Routes = (router) =>
    router
      .service(UserService, {
        getProfile: (_request, context) => {
          metadata = Object.fromEntries(context.requestHeader);
          return { user: { id: "1" } };
        },
        revokeSession: () => ({ message: "ok" }),
      })
      .service(AuthService, {
        login: () => ({ accessToken: "secret-token", refreshToken: "secret.e30.refresh" }),
        refresh: () => ({}),
        logout: () => ({}),
      });
  return { routes, metadata: () => metadata };
}

/** Opens a transport to stub services for one test. */
export const openTransport = async (
  ...stub: Parameters<typeof startStubServices>
): Promise<Transport> => (await forTest(startStubServices(...stub))).transport;

/** A streaming call. */
export const chat = (transport: Transport, signal?: AbortSignal) =>
  transport.stream(
    AIService.method.streamChat,
    signal,
    undefined,
    undefined,
    createAsyncIterable([{ provider: "p" }]),
  );

/** The error of a call that must fail. */
export const errorOf = (promise: Promise<unknown>): Promise<ConnectError> =>
  promise.then(
    () => expect.unreachable("it should have failed"),
    (error) => error,
  );
