import { getHeapStatistics } from "node:v8";
import { Reason } from "../../../gen/gatehouse/platform/v1/failure_pb.ts";
import { memoryBytes as memoryOfMachine } from "../process/node.ts";
import { ServiceError, unavailable } from "../rpc/errors.ts";
import { networksOf } from "./address.ts";

const MIB = 1024 * 1024;

/** Heap and memory of an idle process. Measured: 50 MB and 100 MB without an embedded database. */
const IDLE_HEAP_BYTES = 64 * MIB;

const IDLE_MEMORY_BYTES = 128 * MIB;

/**
 * Fractions of the remaining memory that requests may use. The rest is for garbage and for buffers
 * outside the heap.
 */
const HEAP_FRACTION = 0.6;

const MEMORY_FRACTION = 0.5;

/**
 * Memory of a small request, of each byte of a large body, of a connection. Measured: 25 to 50 KiB,
 * 0.7 to 2.3, 20 KiB.
 */
const REQUEST_BYTES = 48 * 1024;

const BYTES_PER_BODY_BYTE = 3;

const CONNECTION_BYTES = 20 * 1024;

/** The largest body of any method, which every process admits: the highest `max_body_bytes`. */
const LARGEST_BODY_BYTES = 8 * MIB;

const MIN_BUDGET_BYTES = LARGEST_BODY_BYTES * BYTES_PER_BODY_BYTE;

/**
 * Number of HTTP/1.1 connections that use as much memory as one HTTP/2 connection with its read
 * buffer of 64 KiB.
 */
const HTTP2_CONNECTION_FACTOR = 4;

/** Maximum fraction of the budget for large bodies. */
const BODY_FRACTION = 0.3;

/** Bodies up to this size are covered by `REQUEST_BYTES`. */
const SMALL_BODY_BYTES = 32 * 1024;

/**
 * Maximum fraction of requests that may be long-running calls, which wait minutes for providers or
 * clients.
 */
const LONG_RUNNING_FRACTION = 0.6;

/** One caller's share of all requests, bodies and connections, and its minimum. */
const CALLER_FRACTION = 1 / 20;

const MIN_CALLER_REQUESTS = 32;

const MIN_CALLER_CONNECTIONS = 64;

const MIN_CALLER_REPLY_BYTES = 16 * MIB;

/** Maximum number of health watches and reflection streams per address. */
const WATCHES_PER_ADDRESS = 8;

/** Maximum number of calls per address that wait for the keys of access tokens to be reloaded. */
const KEY_WAITS_PER_ADDRESS = 8;

/**
 * Maximum number of open calls, rejected ones included, per caller and in total, as multiples of
 * the requests in progress. A caller over its requests gets 429; over its open calls, it is
 * disconnected.
 */
const OPEN_PER_REQUEST = 2;

const OPEN_IN_ALL_PER_REQUEST = 1.25;

/** Maximum number of open health checks per address, counted separately from its other calls. */
const PROBES_PER_ADDRESS = 64;

/**
 * Maximum number of connections per address that have not sent the gateways' secret yet, as a
 * multiple of a client's connections: a gateway uses one per open call.
 */
const GATEWAY_CONNECTIONS_FACTOR = 4;

/**
 * Kind of a call: health probe, public watch, wait for token keys, AI stream, other long-running AI
 * call, or any other.
 */
export type CallKind = "probe" | "watch" | "key-wait" | "user-stream" | "long-running" | "default";

/**
 * Who a call counts towards: its user if it has a valid access token or API key, otherwise its
 * address. Calls from gateways have neither: the gateway has already counted its clients.
 */
export type Caller = {
  userId?: string | undefined;
  address?: string | undefined;
  /** Whether the user is a service account, which may have more streams. */
  isService?: boolean | undefined;
};

/** Permission to run one call. */
export type Permit = {
  /**
   * Reserves memory for a body of the given total size.
   * @param body the request body, or a reply that is buffered before it is sent
   * @throws ServiceError
   */
  reserveBody(bytes: number, body?: "request" | "reply"): void;
  /** Releases everything. Idempotent. */
  release(): void;
};

/** An open connection or call, and the caller it counts towards. */
export type OpenSlot = {
  /**
   * Counts it towards another caller from now on.
   * @throws ServiceError TOO_MANY_CONCURRENT if that caller's share is used up; nothing changes
   * then
   */
  moveTo(caller: Caller): void;
  /**
   * Closes the slot. Idempotent.
   * @param lingerMs time for which it still counts
   */
  close(lingerMs?: number): void;
};

/** What is counted while open. */
export type OpenKind =
  | "calls"
  | "probes"
  | "connections"
  | "http2Connections"
  | "gatewayConnections";

export type Admission = ReturnType<typeof createAdmission>;

/**
 * A counter that a call or connection adds to, and its maximum. `error` replaces the error for an
 * exceeded share.
 */
type Share = { key: string; max: number; error?: () => ServiceError };

/** Counters by key. */
function createCounts() {
  const counts = new Map<string, number>();
  const exceededBy = (shares: readonly Share[], amount: number) =>
    shares.find(({ key, max }) => (counts.get(key) ?? 0) + amount > max);
  return {
    /** Whether every counter may be incremented. */
    hasRoom: (shares: readonly Share[]): boolean => exceededBy(shares, 1) === undefined,
    /**
     * Increments every counter.
     * @throws ServiceError if one would exceed its maximum; none is changed then
     */
    acquire(shares: readonly Share[], amount = 1): void {
      const exceeded = exceededBy(shares, amount);
      if (exceeded) throw (exceeded.error ?? tooManyConcurrent)();
      for (const { key } of shares) counts.set(key, (counts.get(key) ?? 0) + amount);
    },
    release(shares: readonly Share[], amount = 1): void {
      for (const { key } of shares) {
        const count = (counts.get(key) ?? 0) - amount;
        if (count > 0) counts.set(key, count);
        else counts.delete(key);
      }
    },
  };
}

/**
 * Admission control against overload: limits the concurrent work of a process by its memory, and
 * each caller to a share of it. Workers divide the memory of the machine or container.
 */
export function createAdmission({
  streamsPerUser = 20,
  streamsPerServiceAccount = 200,
  workers = 1,
  budgetBytes = spareBytes(workers),
  memoryBytes = spareMemory(workers),
} = {}) {
  const counts = createCounts();
  const maxRequests = Math.floor(budgetBytes / REQUEST_BYTES);
  const maxOpen = Math.floor(maxRequests * OPEN_IN_ALL_PER_REQUEST);
  const maxBodyBytes = Math.max(
    LARGEST_BODY_BYTES,
    (budgetBytes * BODY_FRACTION) / BYTES_PER_BODY_BYTE,
  );
  const maxConnections = Math.floor(memoryBytes / CONNECTION_BYTES);
  const requestsPerCaller = Math.max(
    MIN_CALLER_REQUESTS,
    Math.floor(maxRequests * CALLER_FRACTION),
  );
  const connectionsPerAddress = Math.max(
    MIN_CALLER_CONNECTIONS,
    Math.floor(maxConnections * CALLER_FRACTION),
  );
  /** Limits for a single caller. */
  const share = {
    requests: requestsPerCaller,
    watches: WATCHES_PER_ADDRESS,
    keyWaits: KEY_WAITS_PER_ADDRESS,
    bodies: Math.max(LARGEST_BODY_BYTES, maxBodyBytes * CALLER_FRACTION),
    replies: Math.max(MIN_CALLER_REPLY_BYTES, maxBodyBytes * CALLER_FRACTION),
    calls: requestsPerCaller * OPEN_PER_REQUEST,
    probes: PROBES_PER_ADDRESS,
    connections: connectionsPerAddress,
    http2Connections: Math.max(
      MIN_CALLER_CONNECTIONS,
      Math.floor(connectionsPerAddress / HTTP2_CONNECTION_FACTOR),
    ),
    gatewayConnections: connectionsPerAddress * GATEWAY_CONNECTIONS_FACTOR,
  };
  const sharesOf = (what: keyof typeof share, { userId, address }: Caller) => {
    const networks = address === undefined ? [] : networksOf(address);
    const counted = userId === undefined ? networks : [[userId, 1] as const];
    return counted.map(
      ([who, factor]): Share => ({ key: `${what}:${who}`, max: share[what] * factor }),
    );
  };
  const sharesOfCall = (kind: CallKind, caller: Caller): Share[] => {
    if (kind === "probe") return [];
    if (kind === "key-wait") return sharesOf("keyWaits", caller);
    const fraction = kind === "default" ? 1 : LONG_RUNNING_FRACTION;
    const shares = sharesOf(kind === "watch" ? "watches" : "requests", caller);
    if (kind === "user-stream" && caller.userId !== undefined) {
      const max = caller.isService ? streamsPerServiceAccount : streamsPerUser;
      shares.push({ key: `streams:${caller.userId}`, max });
    }
    return [...shares, { key: "requests", max: maxRequests * fraction, error: full }];
  };

  return {
    /** Maximum number of connections per port. */
    maxConnections,

    /** Whether a call would be admitted now. */
    hasRoom: (kind: CallKind, caller: Caller): boolean =>
      counts.hasRoom(sharesOfCall(kind, caller)),

    /**
     * Admits a call.
     * @throws ServiceError UNAVAILABLE if the process is at capacity, TOO_MANY_CONCURRENT if the
     * caller's share is used up
     */
    acquire(kind: CallKind, caller: Caller): Permit {
      const shares = sharesOfCall(kind, caller);
      counts.acquire(shares);
      const all = { key: "bodies", max: maxBodyBytes, error: full };
      const request = { shares: [] as Share[], bytes: 0 };
      const reply = { shares: [] as Share[], bytes: 0 };
      return {
        reserveBody(bytes, body = "request") {
          const held = body === "request" ? request : reply;
          const more = bytes - SMALL_BODY_BYTES - held.bytes;
          if (more <= 0 || shares.length === 0) return; // already released, or a probe
          held.shares = [...sharesOf(body === "request" ? "bodies" : "replies", caller), all];
          counts.acquire(held.shares, more);
          held.bytes += more;
        },
        release() {
          counts.release(shares.splice(0));
          for (const held of [request, reply]) counts.release(held.shares.splice(0), held.bytes);
        },
      };
    },

    /**
     * Counts a call or connection when it is opened, before anything but its caller is known.
     * @throws ServiceError UNAVAILABLE if the process is at capacity, TOO_MANY_CONCURRENT if the
     * caller's share is used up
     */
    open(what: OpenKind, caller: Caller): OpenSlot {
      const inAll: Share[] = what === "calls" ? [{ key: "calls", max: maxOpen, error: full }] : [];
      let own = sharesOf(what, caller);
      let isOpen = true;
      let isClosed = false;
      counts.acquire([...own, ...inAll]);
      const release = () => {
        if (isOpen) counts.release([...own, ...inAll]);
        isOpen = false;
      };
      return {
        moveTo(other) {
          if (!isOpen) return;
          const shares = sharesOf(what, other);
          counts.acquire(shares);
          counts.release(own);
          own = shares;
        },
        close(lingerMs = 0) {
          if (isClosed) return;
          isClosed = true;
          if (lingerMs > 0) setTimeout(release, lingerMs).unref();
          else release();
        },
      };
    },
  };
}

const full = () => unavailable("Too many requests are in progress. Please try again in a moment.");

/** The error for an exceeded share. */
export const tooManyConcurrent = () =>
  new ServiceError(
    Reason.TOO_MANY_CONCURRENT,
    "Too many of your requests are in progress. Please wait until one has finished.",
    {
      retryAfterSeconds: 1,
    },
  );

function spareBytes(workers: number): number {
  const heap = (getHeapStatistics().heap_size_limit - IDLE_HEAP_BYTES) * HEAP_FRACTION;
  return Math.max(Math.min(heap, spareMemory(workers)), MIN_BUDGET_BYTES);
}

function spareMemory(workers: number): number {
  const limit = memoryOfMachine() / workers;
  const used = Math.max(IDLE_MEMORY_BYTES, process.memoryUsage.rss());
  return Math.max((limit - used) * MEMORY_FRACTION, MIN_BUDGET_BYTES);
}
