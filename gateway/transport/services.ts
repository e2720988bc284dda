import type { Transport } from "@connectrpc/connect";
import { createGrpcTransport, Http2SessionManager } from "@connectrpc/connect-node";
import { readTlsFiles, type TlsFiles } from "../../services/platform/process/tls-files.ts";
import type { ServicesTransport } from "./internal.ts";

/** Maximum message from the services, in bytes: more than the largest reply of a provider. */
const MAX_MESSAGE_BYTES = 17 * 1024 * 1024;
/**
 * Calls of one connection. Proxies allow about as many at once: further ones would wait for AI
 * providers. Node's HTTP/2 server closes a connection, with all its calls, after 1,000 resets in a
 * burst. A load balancer spreads new connections over services that were started later.
 */
const MAX_CALLS = 100;
/**
 * Session memory of a connection, in MB. Node counts the unsent bytes of aborted calls until the
 * connection ends, although their memory is free. Above its default of 10 MB it refuses every
 * further call.
 */
const MAX_ABANDONED_MB = 1_024;
/**
 * Calls of a connection before the services have announced their own limit. They refuse more until
 * they have seen the secret of the gateways on it.
 */
const MAX_FIRST_CALLS = 32;
/**
 * A peer that does not respond is detected within the sum of the first two, in ms. A connection
 * without calls is closed.
 */
const TIMEOUTS = { pingIntervalMs: 10_000, pingTimeoutMs: 5_000, idleConnectionTimeoutMs: 15_000 };

/**
 * gRPC to the services behind a URL: HTTP/2 without TLS for http, with TLS for https.
 * @param files for TLS: the gateway's certificate for services that require one, and the CA of
 * their certificates
 * @throws Error for operators, if a file can't be read
 */
export function createServicesTransport(url: string, files: TlsFiles = {}): ServicesTransport {
  const options = {
    ...readTlsFiles(files),
    maxSessionMemory: MAX_ABANDONED_MB,
    peerMaxConcurrentStreams: MAX_FIRST_CALLS,
  };
  const sessions = new Set<Http2SessionManager>();
  let calls = 0;
  let current: Transport;
  const transport = () => {
    if (calls++ % MAX_CALLS !== 0) return current;
    for (const session of sessions)
      if (/closed|error/.test(session.state())) sessions.delete(session);
    const sessionManager = new Http2SessionManager(url, TIMEOUTS, options);
    sessions.add(sessionManager);
    const limits = { readMaxBytes: MAX_MESSAGE_BYTES, writeMaxBytes: MAX_MESSAGE_BYTES };
    // Responses are not compressed: the network is fast, and a small compressed message may expand
    // to a large one.
    current = createGrpcTransport({
      baseUrl: url,
      sessionManager,
      acceptCompression: [],
      ...limits,
    });
    return current;
  };
  return {
    unary: (...call) => transport().unary(...call),
    stream: (...call) => transport().stream(...call),
    close() {
      for (const session of sessions) session.abort();
    },
  };
}
