import type { SecureClientSessionOptions } from "node:http2";
import type { DescMethod } from "@bufbuild/protobuf";
import type { Transport } from "@connectrpc/connect";
import { createGrpcTransport, Http2SessionManager } from "@connectrpc/connect-node";
import { AIService } from "../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import { readTlsFiles, type TlsFiles } from "../../services/platform/process.ts";

/** Largest message read from the services, in bytes: a little more than the largest reply of a provider; the default would be 4 GiB. */
const MAX_MESSAGE_BYTES = 17 * 1024 * 1024;
/** HTTP/2 connections among which calls of the AI service are spread, streams and others. */
const AI_SESSIONS = 4;
/**
 * Aborted calls after which a connection is left to its remaining calls and a fresh one takes its place: Node's HTTP/2
 * server ends a connection, and everything on it, after about 1,000 resets in a burst.
 */
const MAX_ABORTS = 400;
/**
 * What aborted calls may have left unsent, in megabytes: Node counts it until the connection ends, though the memory is
 * free again, and past its own limit of 10 refuses every further call.
 */
const MAX_ABANDONED_MB = 1_024;
/**
 * Longest a unary call may take where its caller names no bound, in milliseconds: a little more than the longest reply
 * of a provider. Services bound their own work far below; this ends calls whose answer got lost.
 */
const UNARY_TIMEOUT_MS = 11 * 60_000;
/** A dead peer is noticed within the sum of these, in milliseconds. */
const PING = { pingIntervalMs: 10_000, pingTimeoutMs: 5_000 };
/** A connection without calls is closed after this, in milliseconds. */
const IDLE_MS = 60_000;
/**
 * New calls go over a fresh connection after this, in milliseconds: a proxy that balances connections spreads them over
 * services that came later, or came back.
 */
const RENEW_MS = 2 * 60_000;

/** A transport to services in another process. */
export type ServicesTransport = Transport & {
  /** Closes every connection, open calls included. */
  close(): void;
};

/**
 * gRPC to the services behind a URL: HTTP/2 in the clear for http, TLS for https. Calls that wait for AI
 * providers have connections of their own, so that neither their number nor a burst of leaving readers holds up logins.
 * @param files for TLS: the gateway's own certificate, for services that want one, and the authority of theirs
 * @param renewMs how long a connection takes new calls
 * @throws Error for operators, if a file can't be read
 */
export function createServicesTransport(url: string, files: TlsFiles = {}, renewMs = RENEW_MS): ServicesTransport {
  const tls = readTlsFiles(files);
  const accounts = createConnection(url, tls, renewMs);
  const ai = Array.from({ length: AI_SESSIONS }, () => createConnection(url, tls, renewMs));
  let turn = 0;
  const connectionFor = ({ parent }: DescMethod) => {
    if (parent.typeName !== AIService.typeName) return accounts;
    turn = (turn + 1) % ai.length;
    return ai[turn] as Connection;
  };
  return {
    async unary(method, signal, timeoutMs = UNARY_TIMEOUT_MS, ...rest) {
      const call = connectionFor(method).use(signal);
      try {
        return await call.transport.unary(method, signal, timeoutMs, ...rest);
      } finally {
        call.end();
      }
    },
    async stream(method, signal, ...rest) {
      const call = connectionFor(method).use(signal);
      try {
        const response = await call.transport.stream(method, signal, ...rest);
        return { ...response, message: untilEnd(response.message, call.end) };
      } catch (thrown) {
        call.end();
        throw thrown;
      }
    },
    close() {
      for (const each of [accounts, ...ai]) each.close();
    },
  };
}

async function* untilEnd<T>(messages: AsyncIterable<T>, end: () => void): AsyncIterable<T> {
  try {
    yield* messages;
  } finally {
    end();
  }
}

type Connection = {
  /** Begins a call; an abort of its signal counts until `end`. */
  use(signal: AbortSignal | undefined): { transport: Transport; end: () => void };
  close(): void;
};

function createConnection(url: string, tls: SecureClientSessionOptions, renewMs: number): Connection {
  const sessions = new Set<Http2SessionManager>();
  const open = () => {
    for (const session of sessions) if (session.state() === "closed") sessions.delete(session);
    const options = { ...tls, maxSessionMemory: MAX_ABANDONED_MB };
    const sessionManager = new Http2SessionManager(url, { ...PING, idleConnectionTimeoutMs: IDLE_MS }, options);
    sessions.add(sessionManager);
    const transport = createGrpcTransport({
      baseUrl: url,
      sessionManager,
      readMaxBytes: MAX_MESSAGE_BYTES,
      writeMaxBytes: MAX_MESSAGE_BYTES,
      acceptCompression: [], // the way is short, and a small compressed message may be a large one
    });
    return { transport, aborts: 0, openedAt: performance.now() };
  };
  let current = open();
  return {
    use(signal) {
      if (performance.now() - current.openedAt > renewMs) current = open();
      const mine = current;
      const count = () => {
        mine.aborts += 1;
        if (mine.aborts > MAX_ABORTS && mine === current) current = open();
      };
      signal?.addEventListener("abort", count, { once: true });
      return { transport: mine.transport, end: () => signal?.removeEventListener("abort", count) };
    },
    close() {
      for (const session of sessions) session.abort();
    },
  };
}
