import type { EventEmitter } from "node:events";
import type { IncomingHttpHeaders } from "node:http";
import type { Socket } from "node:net";
import type { Logger } from "pino";
import { isGatewaySecret, SECRET } from "../rpc/metadata.ts";
import { createSampledLog } from "../telemetry/log.ts";
import { plainAddress } from "./address.ts";
import type { Admission, Caller, OpenSlot } from "./admission.ts";
import { createConnectionQueue } from "./connection-queue.ts";
import type { TrustedProxies } from "./proxies.ts";

/**
 * Time for which a call that the client cancelled, or whose access token was rejected, still counts
 * as open, in ms. Otherwise, opening and resetting calls would be free (CVE-2023-44487), and so
 * would sending invalid tokens, each of which costs a signature check or a key lookup.
 */
const LINGER_MS = 1_000;
/**
 * Time for which a connection that was closed because its address exceeded its share still counts,
 * in ms. Otherwise, reconnecting would be free for the client while costing this process up to 10
 * ms.
 */
const CUT_LINGER_MS = 10_000;

/** An open call, from its headers to its end. */
export type OpenCall = {
  /** Address of the client. */
  address: string;
  /** Whether a gateway, which has already counted the call, forwards it. */
  isForwarded: boolean;
  /** Whether it is a health check. Health checks have their own share. */
  isProbe: boolean;
  /**
   * Counts the call towards the user of its valid access token. From now on the whole connection
   * counts towards that user, unless it belongs to a proxy and is shared.
   * @throws ServiceError TOO_MANY_CONCURRENT
   */
  identify(userId: string): void;
  /** Reports that the access token was rejected: the call counts a little longer. */
  refuse(): void;
  /**
   * @param wasGivenUp whether the client cancelled it before the response: it counts a little
   * longer
   */
  close(wasGivenUp?: boolean): void;
};

/** Settings of a port for its guard. */
export type GuardOptions = {
  admission: Admission;
  proxies: TrustedProxies;
  /** Whether a path is that of a health check. */
  isProbe(path: string): boolean;
  /** Secret of the gateways, on ports that gateways may call. */
  secret?: string | undefined;
  /** Whether every peer is an internal caller whose X-Forwarded-For is trusted. */
  isInternal?: boolean;
  /** The share that limits the connections of an address; by default that of HTTP/1.1 clients. */
  connections?: "connections" | "http2Connections" | "gatewayConnections";
  log?: Pick<Logger, "warn"> | undefined;
};

/** An open connection to a port. */
export type Connection = {
  /** Whether it carries the calls of many clients, like the connection of a proxy or gateway. */
  isShared(): boolean;
  /** Whether a gateway has sent its secret on this connection. */
  isGateway(): boolean;
  /**
   * Counts a call before any other processing.
   * @param onIdentified called once a user or gateway is identified
   * @throws ServiceError UNAVAILABLE, TOO_MANY_CONCURRENT
   */
  open(
    request: { headers: IncomingHttpHeaders; url?: string | undefined },
    onIdentified?: () => void,
  ): OpenCall;
  /**
   * Closes the connection because its client has exceeded its share.
   * @param destroy how to close it; by default, its socket is destroyed
   */
  cut(destroy?: () => void): void;
};

/** See {@link createPortGuard}. */
export type PortGuard = ReturnType<typeof createPortGuard>;

/**
 * Counts all connections and calls of a port from the first byte to the last, whatever their
 * outcome: each towards its address until a user or gateway is identified.
 */
export function createPortGuard(options: GuardOptions) {
  const { admission, proxies, secret, isProbe, isInternal = false } = options;
  const connectionShare = options.connections ?? "connections";
  const cutLog = createSampledLog((count) =>
    options.log?.warn({ count }, "connections closed: their addresses exceeded their share"),
  );
  /**
   * Keyed by peer: with TLS, requests have a different socket object than the `connection` event.
   */
  const connections = new Map<unknown, Connection>();
  const keyOf = (socket: Peer) =>
    socket.remotePort === undefined ? socket : `${socket.remoteAddress} ${socket.remotePort}`;

  function createConnection(
    socket: Socket,
    peer: string,
    { slot, onCut }: { slot?: OpenSlot | undefined; onCut(): void },
  ): Connection {
    const isProxy = proxies.isTrusted(peer) || isInternal;
    let isGateway = false;
    /** The last user of a connection that belongs to a single client. */
    let userId: string | undefined;
    const callerOf = (address: string, isForwarded: boolean): Caller => {
      if (isForwarded) return {};
      return userId === undefined ? { address } : { userId };
    };
    return {
      isShared: () => isProxy || isGateway,
      isGateway: () => isGateway,
      open({ headers, url = "" }, onIdentified) {
        const isForwarded = isGatewaySecret(headers[SECRET], secret);
        const address = proxies.clientOf(peer, headers["x-forwarded-for"], isInternal);
        const isHealth = isProbe(url);
        const caller = isHealth && !isForwarded ? { address } : callerOf(address, isForwarded);
        const call = admission.open(isHealth ? "probes" : "calls", caller);
        if (isForwarded && !isGateway) {
          isGateway = true;
          slot?.moveTo({});
          onIdentified?.();
        }
        let isRefused = false;
        return {
          address,
          isForwarded,
          isProbe: isHealth,
          refuse: () => {
            isRefused = true;
          },
          identify(user) {
            if (caller.userId !== user) call.moveTo({ userId: user });
            if (isProxy) return;
            userId = user;
            onIdentified?.();
          },
          close: (wasGivenUp) => call.close(wasGivenUp || isRefused ? LINGER_MS : 0),
        };
      },
      cut(destroy = () => void socket.destroy()) {
        cutLog.add();
        slot?.close(CUT_LINGER_MS);
        onCut();
        destroy();
      },
    };
  }

  return {
    /**
     * Counts a server's connections, in total and per address, before the server reads them. Those
     * of proxies only count in total, and never wait for others.
     */
    watch(server: EventEmitter & Watched): void {
      server.maxConnections = admission.maxConnections;
      server.dropMaxConnection = true; // otherwise full workers would pass a connection around forever
      const listeners = server.listeners("connection");
      server.removeAllListeners("connection");
      const serve = (socket: Socket) => {
        for (const listener of listeners) listener.call(server, socket);
      };
      const queue = createConnectionQueue(serve, () => server.listening);
      server.on("connection", (socket: Socket) => {
        const address = plainAddress(socket.remoteAddress ?? "");
        const isCounted = !proxies.isTrusted(address);
        let slot: OpenSlot | undefined;
        try {
          slot = isCounted ? admission.open(connectionShare, { address }) : undefined;
        } catch {
          cutLog.add();
          return void socket.destroy();
        }
        const key = keyOf(socket);
        const onCut = () => queue.slowDown(address, CUT_LINGER_MS);
        connections.set(key, createConnection(socket, address, { slot, onCut }));
        socket.once("close", () => {
          connections.delete(key);
          slot?.close();
        });
        if (isCounted) queue.add(socket, address);
        else serve(socket);
      });
    },
    /** The connection of a socket; undefined once it is closed. */
    connectionOf: (socket: Peer): Connection | undefined => connections.get(keyOf(socket)),
  };
}

/** The properties of a server that the guard reads and sets. */
type Watched = { maxConnections: number; dropMaxConnection?: boolean; listening: boolean };

type Peer = Pick<Socket, "remoteAddress" | "remotePort">;

/** Property of a request that holds its open call. Cheaper than an entry of a WeakMap. */
const OPEN_CALL = Symbol("open call");
type Counted = { [OPEN_CALL]?: OpenCall };

/** Remembers the open call of a request. */
export function setOpenCall(request: object, call: OpenCall): void {
  (request as Counted)[OPEN_CALL] = call;
}

/**
 * The open call of a request.
 * @throws Error if the port of the request has no guard
 */
export function openCallOf(request: object): OpenCall {
  const call = (request as Counted)[OPEN_CALL];
  if (!call) throw new Error("the port has no guard");
  return call;
}
