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
 * A call that its client gave up, or whose access token was refused, counts as open for so much
 * longer, in ms. Otherwise opening and resetting calls would cost nothing (CVE-2023-44487), nor
 * would sending invalid tokens: each costs a signature check or a look-up of its key.
 */
const LINGER_MS = 1_000;
/**
 * A connection that was closed since its address exceeded its share counts for so much longer, in
 * ms. Otherwise opening it again would cost the address nothing, and this process up to 10 ms.
 */
const CUT_LINGER_MS = 10_000;

/** An open call, from its headers to its end. */
export type OpenCall = {
  /** The client's address. */
  address: string;
  /** Whether a gateway forwards the call, which has counted it. */
  isForwarded: boolean;
  /** Whether it is a health check, which has a share of its own. */
  isProbe: boolean;
  /**
   * Counts the call towards a user, who has sent a valid access token. The connection is the user's
   * from now on, unless a proxy shares it out.
   * @throws ServiceError TOO_MANY_CONCURRENT
   */
  identify(userId: string): void;
  /** Says that its access token was refused: it counts a little longer. */
  refuse(): void;
  /** @param wasGivenUp by its client before it was answered: it counts a little longer */
  close(wasGivenUp?: boolean): void;
};

/** What a port tells its guard. */
export type GuardOptions = {
  admission: Admission;
  proxies: TrustedProxies;
  /** Whether the path is that of a health check. */
  isProbe(path: string): boolean;
  /** The secret of the gateways, where they may call. */
  secret?: string | undefined;
  /** Whether every peer is an internal caller, whose X-Forwarded-For names its client. */
  isInternal?: boolean;
  /** Which share the connections of an address have: that of clients, or that of a gateway. */
  connections?: "connections" | "gatewayConnections";
  log?: Pick<Logger, "warn"> | undefined;
};

/** An open connection of a port. */
export type Connection = {
  /** Whether it carries the calls of many clients: a proxy's or a gateway's. */
  isShared(): boolean;
  /** Whether a gateway has shown its secret on it. */
  isGateway(): boolean;
  /**
   * Counts a call before anything else is done about it.
   * @param onIdentified called when a user or a gateway is known
   * @throws ServiceError UNAVAILABLE, TOO_MANY_CONCURRENT
   */
  open(
    request: { headers: IncomingHttpHeaders; url?: string | undefined },
    onIdentified?: () => void,
  ): OpenCall;
  /**
   * Closes it, since its client has exceeded its share.
   * @param destroy by default that of its socket
   */
  cut(destroy?: () => void): void;
};

/** See {@link createPortGuard}. */
export type PortGuard = ReturnType<typeof createPortGuard>;

/**
 * Counts the connections and calls of a port from their first byte to their last, whatever they are
 * and whatever becomes of them: each towards its address, until a user or a gateway is known.
 */
export function createPortGuard(options: GuardOptions) {
  const { admission, proxies, secret, isProbe, isInternal = false } = options;
  const connectionShare = options.connections ?? "connections";
  const cutLog = createSampledLog((count) =>
    options.log?.warn({ count }, "connections were closed: their addresses exceeded their share"),
  );
  /** By peer: with TLS the socket of requests is another object than that of the connection. */
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
    /** The last user of a connection that one client has. */
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
     * Counts a server's connections, in all and per address, before the server reads them. Those of
     * proxies count in all, and wait for no other.
     */
    watch(server: EventEmitter & { maxConnections: number }): void {
      server.maxConnections = admission.maxConnections;
      const listeners = server.listeners("connection");
      server.removeAllListeners("connection");
      const serve = (socket: Socket) => {
        for (const listener of listeners) listener.call(server, socket);
      };
      const queue = createConnectionQueue(serve);
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
    /** The connection of a socket; undefined once it has ended. */
    connectionOf: (socket: Peer): Connection | undefined => connections.get(keyOf(socket)),
  };
}

type Peer = Pick<Socket, "remoteAddress" | "remotePort">;

const openCalls = new WeakMap<object, OpenCall>();

/** Remembers the open call of a request. */
export const setOpenCall = (request: object, call: OpenCall): void =>
  void openCalls.set(request, call);

/**
 * The open call of a request.
 * @throws Error if the port of the request has no guard
 */
export function openCallOf(request: object): OpenCall {
  const call = openCalls.get(request);
  if (!call) throw new Error("the port does not count its calls");
  return call;
}
