import type { EventEmitter } from "node:events";
import type { Socket } from "node:net";
import { totalmem } from "node:os";
import type { Readable } from "node:stream";
import { getHeapStatistics } from "node:v8";
import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { networksOf, plainAddress } from "./client.ts";
import { ServiceError, unavailable } from "./errors.ts";

const MIB = 1024 * 1024;
/** Heap and memory of an idle process. Measured: 50 and 100 MB without an embedded database. */
const IDLE_HEAP_BYTES = 64 * MIB;
const IDLE_MEMORY_BYTES = 128 * MIB;
/**
 * Fractions of the rest that requests may use. The remainder is for garbage, and for buffers
 * outside the heap.
 */
const HEAP_FRACTION = 0.6;
const MEMORY_FRACTION = 0.5;
/** Minimum budget: one request of the largest size. */
const MIN_BUDGET_BYTES = 24 * MIB;
/**
 * Memory of a small request, of a byte of a large body, of a connection. Measured: 25 to 50 KiB,
 * 0.7 to 2.3, 20 KiB.
 */
const REQUEST_BYTES = 48 * 1024;
const BYTES_PER_BODY_BYTE = 3;
const CONNECTION_BYTES = 20 * 1024;
/** Maximum part of the budget for large bodies. */
const BODY_FRACTION = 0.3;
/** Bodies up to this size are part of `REQUEST_BYTES`. */
const SMALL_BODY_BYTES = 32 * 1024;
/**
 * Maximum part of the requests that are long-running calls, which wait for providers or clients for
 * minutes.
 */
const LONG_RUNNING_FRACTION = 0.6;
/**
 * Share of one caller in all requests, bodies and connections, and its minimum: the largest body of
 * any method.
 */
const CALLER_FRACTION = 1 / 20;
const MIN_CALLER_REQUESTS = 32;
const MIN_CALLER_CONNECTIONS = 64;
const MIN_CALLER_BODY_BYTES = 2 * MIB + SMALL_BODY_BYTES;
const MIN_CALLER_REPLY_BYTES = 16 * MIB;
/** Health watches and reflection streams per address. */
const WATCHES_PER_ADDRESS = 8;

/**
 * The kind of a call: a health probe, a public watch, an AI stream, another AI call, or any other.
 */
export type CallKind = "probe" | "watch" | "user-stream" | "long-running" | "default";

/**
 * Whose share a call uses: its user's if it has a valid access token, else its address's. Gateways
 * and proxies have none.
 */
type Caller = { userId: string | undefined; address: string | undefined };

/** The right to run one call. */
export type Permit = {
  /**
   * Reserves memory for a body of this size.
   * @param body the request's, or that of a reply which is collected before it is sent on
   * @throws ServiceError
   */
  reserveBody(bytes: number, body?: "request" | "reply"): void;
  /** Releases everything. May be called twice. */
  release(): void;
};

export type Admission = ReturnType<typeof createAdmission>;

/**
 * One count that a call or a connection adds to, what it may rise to, and the error if that is not
 * the caller's share.
 */
type Share = { key: string; max: number; error?: () => ServiceError };

/**
 * Admission control against overload: bounds a process's concurrent work by its memory, and each
 * caller's share.
 */
export function createAdmission({ streamsPerUser = 20, budgetBytes = spareBytes() } = {}) {
  const counts = new Map<string, number>();
  const maxRequests = Math.floor(budgetBytes / REQUEST_BYTES);
  const maxBodyBytes = (budgetBytes * BODY_FRACTION) / BYTES_PER_BODY_BYTE;
  const maxConnections = Math.floor(spareMemory() / CONNECTION_BYTES);
  /** Of one caller. */
  const share = {
    requests: Math.max(MIN_CALLER_REQUESTS, Math.floor(maxRequests * CALLER_FRACTION)),
    watches: WATCHES_PER_ADDRESS,
    bodies: Math.max(MIN_CALLER_BODY_BYTES, maxBodyBytes * CALLER_FRACTION),
    replies: Math.max(MIN_CALLER_REPLY_BYTES, maxBodyBytes * CALLER_FRACTION),
    connections: Math.max(MIN_CALLER_CONNECTIONS, Math.floor(maxConnections * CALLER_FRACTION)),
  };
  /** Adds to every count, or throws and adds to none. */
  const acquire = (shares: Share[], amount: number) => {
    const exceeded = shares.find(({ key, max }) => (counts.get(key) ?? 0) + amount > max);
    if (exceeded) throw (exceeded.error ?? tooManyConcurrent)();
    for (const { key } of shares) counts.set(key, (counts.get(key) ?? 0) + amount);
  };
  const release = (shares: Share[], amount: number) => {
    for (const { key } of shares) {
      const count = (counts.get(key) ?? 0) - amount;
      if (count > 0) counts.set(key, count);
      else counts.delete(key);
    }
  };
  const sharesOf = (what: keyof typeof share, { userId, address }: Caller) => {
    const networks = address === undefined ? [] : networksOf(address);
    const counted = userId === undefined ? networks : [[userId, 1] as const];
    return counted.map(
      ([who, factor]): Share => ({ key: `${what}:${who}`, max: share[what] * factor }),
    );
  };

  return {
    /**
     * @throws ServiceError UNAVAILABLE if the process is full, TOO_MANY_CONCURRENT if the caller
     * has used its share
     */
    acquire(kind: CallKind, caller: Caller): Permit {
      const { userId } = caller;
      const shares: Share[] = [];
      if (kind !== "probe") {
        const fraction = kind === "default" ? 1 : LONG_RUNNING_FRACTION;
        shares.push(...sharesOf(kind === "watch" ? "watches" : "requests", caller));
        if (kind === "user-stream" && userId)
          shares.push({ key: `streams:${userId}`, max: streamsPerUser });
        shares.push({ key: "requests", max: maxRequests * fraction, error: full });
      }
      acquire(shares, 1);
      const all = { key: "bodies", max: maxBodyBytes, error: full };
      const request = { shares: [] as Share[], bytes: 0 };
      const reply = { shares: [] as Share[], bytes: 0 };
      return {
        reserveBody(bytes, body = "request") {
          const held = body === "request" ? request : reply;
          const more = bytes - SMALL_BODY_BYTES - held.bytes;
          if (more <= 0 || shares.length === 0) return; // nothing is held after the release
          held.shares = [...sharesOf(body === "request" ? "bodies" : "replies", caller), all];
          acquire(held.shares, more);
          held.bytes += more;
        },
        release() {
          release(shares.splice(0), 1);
          for (const held of [request, reply]) release(held.shares.splice(0), held.bytes);
        },
      };
    },

    /**
     * Limits a server's connections, in all and per address.
     * @param isExempt addresses without a share, such as proxies
     */
    limitConnections(
      server: EventEmitter & { maxConnections: number },
      isExempt: (address: string) => boolean,
    ): void {
      server.maxConnections = maxConnections;
      server.on("connection", (socket: Socket) => {
        const address = plainAddress(socket.remoteAddress ?? "");
        if (address === "" || isExempt(address)) return;
        const shares = sharesOf("connections", { userId: undefined, address });
        try {
          acquire(shares, 1);
        } catch {
          return void socket.destroy();
        }
        socket.once("close", () => release(shares, 1));
      });
    },
  };
}

export const payloadTooLarge = () =>
  new ServiceError(Reason.PAYLOAD_TOO_LARGE, "The body is larger than this method accepts.");

/**
 * Reads a body up to its body limit. Its parts are joined as they arrive, since many small buffers
 * cost more memory than their content. After an error the rest is discarded.
 * @param permit reserves its memory
 * @param timeoutMs time until its end; 0 where the server has a limit of its own
 * @throws ServiceError PAYLOAD_TOO_LARGE, TOO_MANY_CONCURRENT, UNAVAILABLE, REQUEST_TIMEOUT,
 * MALFORMED_REQUEST if the client leaves
 */
export function readBody(
  stream: Readable,
  permit: Permit | undefined,
  maxBytes: number,
  timeoutMs = 0,
): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    let buffer = Buffer.alloc(0);
    let bytes = 0;
    const finish = (error?: unknown) => {
      clearTimeout(timer);
      stream.off("data", add).off("end", finish).off("error", breakOff).off("close", breakOff);
      if (error === undefined) return resolve(buffer.subarray(0, bytes));
      buffer = Buffer.alloc(0);
      stream.on("error", () => {}).resume();
      reject(error);
    };
    const add = (part: Buffer) => {
      const start = bytes;
      bytes += part.length;
      try {
        if (bytes > maxBytes) throw payloadTooLarge();
        permit?.reserveBody(bytes);
      } catch (error) {
        return finish(error);
      }
      const capacity = Math.min(Math.max(bytes, 2 * buffer.length), maxBytes);
      if (bytes > buffer.length) buffer = Buffer.concat([buffer], capacity);
      buffer.set(part, start);
    };
    const breakOff = () =>
      finish(new ServiceError(Reason.MALFORMED_REQUEST, "The request broke off."));
    const late = () =>
      finish(new ServiceError(Reason.REQUEST_TIMEOUT, "The request took too long to arrive."));
    const timer = timeoutMs > 0 ? setTimeout(late, timeoutMs) : undefined;
    stream.on("data", add).on("end", finish).on("error", breakOff).on("close", breakOff);
  });
}

const full = () => unavailable("Too many requests are in progress. Please try again in a moment.");
const tooManyConcurrent = () =>
  new ServiceError(
    Reason.TOO_MANY_CONCURRENT,
    "Too many of your requests are in progress. Wait for one to end.",
    {
      retryAfterSeconds: 1,
    },
  );

function spareBytes(): number {
  const heap = (getHeapStatistics().heap_size_limit - IDLE_HEAP_BYTES) * HEAP_FRACTION;
  return Math.max(Math.min(heap, spareMemory()), MIN_BUDGET_BYTES);
}

function spareMemory(): number {
  const limit = Math.min(process.constrainedMemory() || Number.POSITIVE_INFINITY, totalmem()); // of container and machine
  const used = Math.max(IDLE_MEMORY_BYTES, process.memoryUsage.rss());
  return Math.max((limit - used) * MEMORY_FRACTION, MIN_BUDGET_BYTES);
}
