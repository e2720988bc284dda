import type { Interceptor, Transport } from "@connectrpc/connect";
import { createGrpcTransport, Http2SessionManager } from "@connectrpc/connect-node";
import { readTlsFiles, type TlsFiles } from "../../services/platform/process/tls-files.ts";
import { writeUnread } from "../../services/platform/rpc/unread.ts";
import type { ServicesTransport } from "./internal.ts";

/**
 * Maximum size of a message from the services, in bytes: more than the largest reply of a provider.
 */
const MAX_MESSAGE_BYTES = 17 * 1024 * 1024;
/**
 * Maximum number of calls per connection. Proxies allow about as many concurrently; more calls
 * would queue behind AI calls. Node's HTTP/2 server closes a connection, with all its calls, after
 * 1,000 resets in a burst. New connections let a load balancer use services that were started
 * later.
 */
const MAX_CALLS = 100;
/**
 * Session memory per connection, in MB. Node counts the unsent bytes of aborted calls until the
 * connection ends, although their memory has been freed. Above Node's default of 10 MB, it would
 * refuse all further calls.
 */
const MAX_ABANDONED_MB = 1_024;
/**
 * Maximum number of concurrent calls before the services have announced their own limit. They
 * refuse more until they have received the gateway secret on the connection.
 */
const MAX_FIRST_CALLS = 32;
/**
 * An unresponsive peer is detected within the sum of the first two, in ms. A connection without
 * calls is closed after the third.
 */
const TIMEOUTS = { pingIntervalMs: 10_000, pingTimeoutMs: 5_000, idleConnectionTimeoutMs: 15_000 };

/**
 * gRPC transport to the services at a URL: HTTP/2, with TLS for https and without for http.
 * @param files TLS files: the gateway's certificate, for services that require one, and the CA of
 * the services' certificates
 * @throws Error for operators if a file can't be read
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
    // Responses are not compressed: the network is fast, and a small compressed message could
    // expand to a large one.
    current = createGrpcTransport({
      baseUrl: url,
      sessionManager,
      acceptCompression: [],
      interceptors: [sendUnread],
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

/** Sends what the gateway could not read of a request in the metadata of its call. */
const sendUnread: Interceptor = (next) => (req) => {
  writeUnread(req.header, req.contextValues);
  return next(req);
};
