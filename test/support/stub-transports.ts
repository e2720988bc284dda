import { create } from "@bufbuild/protobuf";
import type { ConnectError, Interceptor, Transport } from "@connectrpc/connect";
import { afterEach, expect } from "vitest";
import { AIService, StreamChatRequestSchema } from "../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import { type Routes, startStubServices, type TransportKind } from "./gateway.ts";

/** A function for a suite whose tests each open a transport to stub services. It is closed after the test. */
export function openTransports(transportKind: TransportKind) {
  let stub: Awaited<ReturnType<typeof startStubServices>> | undefined;
  afterEach(() => stub?.close());
  return async (routes: Routes, interceptors?: Interceptor[]): Promise<Transport> => {
    stub = await startStubServices(transportKind, routes, interceptors);
    return stub.transport;
  };
}

async function* one<T>(value: T) {
  yield value;
}

/** A streaming call. */
export const chat = (transport: Transport, signal?: AbortSignal) =>
  transport.stream(
    AIService.method.streamChat,
    signal,
    undefined,
    undefined,
    one(create(StreamChatRequestSchema, { provider: "p" })),
  );

/** The error of a call that must fail. */
export const errorOf = (promise: Promise<unknown>): Promise<ConnectError> =>
  promise.then(
    () => expect.unreachable("it should have failed"),
    (error) => error,
  );
