import type { ConnectError, Transport } from "@connectrpc/connect";
import { createAsyncIterable } from "@connectrpc/connect/protocol";
import { expect } from "vitest";
import { AIService } from "../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import { forTest } from "./closing.ts";
import { startStubServices } from "./gateway.ts";

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
