import type { SecureClientSessionOptions } from "node:http2";
import type { DescMethod } from "@bufbuild/protobuf";
import type { Transport } from "@connectrpc/connect";
import { createGrpcTransport, Http2SessionManager } from "@connectrpc/connect-node";
import { AIService } from "../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import { readTlsFiles, type TlsFiles } from "../../services/platform/process.ts";
import type { ServicesTransport } from "./internal.ts";

/** Maximum message from the services, in bytes: more than the largest reply of a provider. */
const MAX_MESSAGE_BYTES = 17 * 1024 * 1024;
/** HTTP/2 connections for the calls of the AI service. */
const AI_SESSIONS = 4;
/**
 * Aborted calls after which new calls use a new connection. Node's HTTP/2 server closes a connection, with all its calls,
 * after about 1,000 resets in a burst.
 */
const MAX_ABORTS = 400;
/**
 * Session memory of a connection, in MB. Node counts the unsent bytes of aborted calls until the connection ends, although
 * their memory is free. Above its default of 10 MB it refuses every further call.
 */
const MAX_ABANDONED_MB = 1_024;
/**
 * Timeout of a unary call without a deadline of its own, in ms: more than the longest reply of a provider. The services
 * have shorter limits. This one ends calls whose response was lost.
 */
const UNARY_TIMEOUT_MS = 11 * 60_000;
/** A peer that does not respond is detected within the sum of these, in ms. */
const PING = { pingIntervalMs: 10_000, pingTimeoutMs: 5_000 };
/** Idle timeout of a connection without calls, in ms. */
const IDLE_MS = 60_000;
/**
 * Maximum age of a connection for new calls, in ms. A load balancer spreads new connections over services that were started
 * later.
 */
const RENEW_MS = 2 * 60_000;

/**
 * gRPC to the services behind a URL: HTTP/2 without TLS for http, with TLS for https. Calls that wait for AI
 * providers have connections of their own: neither their number nor a burst of disconnects delays logins.
 * @param files for TLS: the gateway's certificate for services that require one, and the CA of their certificates
 * @param renewMs maximum age of a connection for new calls
 * @throws Error for operators, if a file can't be read
 */
export function createServicesTransport(url: string, files: TlsFiles = {}, renewMs = RENEW_MS): ServicesTransport {
  const tls = readTlsFiles(files);
  const accounts = createConnection(url, tls, renewMs);
  const ai = Array.from({ length: AI_SESSIONS }, () => createConnection(url, tls, renewMs));
  let turn = 0;
  const transportFor = ({ parent }: DescMethod, signal: AbortSignal | undefined) => {
    const connection = parent.typeName === AIService.typeName ? ai[turn++ % ai.length] : accounts;
    return (connection ?? accounts).transportFor(signal);
  };
  return {
    unary: (method, signal, timeoutMs = UNARY_TIMEOUT_MS, ...rest) =>
      transportFor(method, signal).unary(method, signal, timeoutMs, ...rest),
    stream: (method, signal, ...rest) => transportFor(method, signal).stream(method, signal, ...rest),
    close() {
      for (const each of [accounts, ...ai]) each.close();
    },
  };
}

function createConnection(url: string, tls: SecureClientSessionOptions, renewMs: number) {
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
      acceptCompression: [], // the network is fast, and a small compressed message may expand to a large one
    });
    return { transport, aborts: 0, openedAt: performance.now() };
  };
  let current = open();
  return {
    /** The transport for one call. An abort of its signal is counted. */
    transportFor(signal: AbortSignal | undefined): Transport {
      if (current.aborts > MAX_ABORTS || performance.now() - current.openedAt > renewMs) current = open();
      const mine = current;
      signal?.addEventListener("abort", () => mine.aborts++, { once: true });
      return mine.transport;
    },
    close(): void {
      for (const session of sessions) session.abort();
    },
  };
}
