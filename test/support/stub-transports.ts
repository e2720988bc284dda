import { create } from "@bufbuild/protobuf";
import type { ConnectError, Transport } from "@connectrpc/connect";
import { expect } from "vitest";
import { AIService, StreamChatRequestSchema } from "../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import { forTest } from "./closing.ts";
import { startStubServices } from "./gateway.ts";

/** Opens a transport to stub services for one test. */
export const openTransport = async (...stub: Parameters<typeof startStubServices>): Promise<Transport> =>
  (await forTest(startStubServices(...stub))).transport;

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
