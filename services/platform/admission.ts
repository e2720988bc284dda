import type { Socket } from "node:net";
import { totalmem } from "node:os";
import { getHeapStatistics } from "node:v8";
import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { networksOf, plainAddress } from "./client.ts";
import { ServiceError, unavailable } from "./errors.ts";

const MIB = 1024 * 1024;
/** Heap and memory of an idle process. Measured: 50 and 100 MB without an embedded database. */
const IDLE_HEAP_BYTES = 64 * MIB;
const IDLE_MEMORY_BYTES = 128 * MIB;
/** Fractions of the rest that requests may use. The remainder is for garbage, and for buffers outside the heap. */
const HEAP_FRACTION = 0.6;
const MEMORY_FRACTION = 0.5;
/** Minimum budget: one request of the largest size. */
const MIN_BUDGET_BYTES = 24 * MIB;
/** Memory of a small request, of a byte of a large body, and of a connection. Measured: 25 to 50 KiB, 0.7 to 2.3, 20 KiB. */
const REQUEST_BYTES = 48 * 1024;
const BYTES_PER_BODY_BYTE = 3;
const CONNECTION_BYTES = 20 * 1024;
/** Maximum part of the budget for large bodies. */
const BODY_FRACTION = 0.3;
/** Bodies up to this size are part of `REQUEST_BYTES`. */
const SMALL_BODY_BYTES = 32 * 1024;
/** Maximum part of the requests that are long-running calls, which wait for providers or clients for minutes. */
const LONG_RUNNING_FRACTION = 0.6;
/** Share of one caller in all requests, bodies and connections, and its minimum. */
const CALLER_FRACTION = 1 / 20;
const MIN_CALLER_REQUESTS = 32;
const MIN_CALLER_CONNECTIONS = 64;
/** The largest body of any method. */
const MIN_CALLER_BODY_BYTES = 2 * MIB + SMALL_BODY_BYTES;
/** Health watches and reflection streams per address. */
const WATCHES_PER_ADDRESS = 8;

/** The kind of a call: a health probe, a public watch, an AI call, or any other. */
export type CallKind = "probe" | "watch" | "long-running" | "default";

/** The properties of a call that are known before its body is read. */
export type AdmissionRequest = {
  kind: CallKind;
  /** The user, if the call has a valid access token. */
  userId: string | undefined;
  /** Whether it is one of the streams that are limited per user. */
  isUserStream: boolean;
  /** The client's address; undefined for gateways and trusted proxies, which have no share. */
  address: string | undefined;
};

/** The right to run one call. */
export type Permit = {
  /** Reserves memory for a body of this size. @throws ServiceError UNAVAILABLE, TOO_MANY_CONCURRENT */
  reserveBody(bytes: number): void;
  /** Releases everything. May be called twice. */
  release(): void;
};

export type Admission = ReturnType<typeof createAdmission>;

/** One count that a call or a connection adds to, what it may rise to, and the error if that is not the caller's share. */
type Share = { key: string; max: number; error?: () => ServiceError };

/**
 * Admission control against overload: bounds the concurrent work of a process by its memory, and each caller's share.
 * @param budgetBytes memory for requests, by default derived from heap limit and container memory
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
    connections: Math.max(MIN_CALLER_CONNECTIONS, Math.floor(maxConnections * CALLER_FRACTION)),
  };
  const release = (key: string, amount: number) => {
    const count = (counts.get(key) ?? 0) - amount;
    if (count > 0) counts.set(key, count);
    else counts.delete(key);
  };
  /** Adds to every count, or throws and adds to none. */
  const acquire = (shares: Share[], amount: number) => {
    for (const [i, { key, max, error = tooManyConcurrent }] of shares.entries()) {
      const count = (counts.get(key) ?? 0) + amount;
      if (count > max) {
        for (const added of shares.slice(0, i)) release(added.key, amount);
        throw error();
      }
      counts.set(key, count);
    }
  };
  const sharesOf = (what: keyof typeof share, { userId, address }: Pick<AdmissionRequest, "userId" | "address">) => {
    const networks = userId !== undefined || address === undefined ? [] : networksOf(address);
    const counted = userId === undefined ? networks : [[userId, 1] as const];
    return counted.map(([who, factor]): Share => ({ key: `${what}:${who}`, max: share[what] * factor }));
  };

  return {
    /** @throws ServiceError UNAVAILABLE if the process is full, TOO_MANY_CONCURRENT if the caller has used its share */
    acquire(call: AdmissionRequest): Permit {
      const { kind, userId, isUserStream } = call;
      const isLong = kind === "long-running" || kind === "watch";
      const shares: Share[] = kind === "probe" ? [] : sharesOf(kind === "watch" ? "watches" : "requests", call);
      if (isUserStream && userId !== undefined) {
        shares.push({ key: `streams:${userId}`, max: streamsPerUser });
      }
      if (kind !== "probe") {
        shares.push({ key: "requests", max: maxRequests * (isLong ? LONG_RUNNING_FRACTION : 1), error: full });
      }
      acquire(shares, 1);
      let bodyShares: Share[] = [];
      let bodyBytes = 0;
      return {
        reserveBody(bytes) {
          const more = bytes - SMALL_BODY_BYTES - bodyBytes;
          if (more <= 0 || shares.length === 0) return; // nothing is held after the release
          bodyShares = [...sharesOf("bodies", call), { key: "bodies", max: maxBodyBytes, error: full }];
          acquire(bodyShares, more);
          bodyBytes += more;
        },
        release() {
          for (const { key } of shares.splice(0)) release(key, 1);
          for (const { key } of bodyShares.splice(0)) release(key, bodyBytes);
        },
      };
    },

    /** Limits a server's connections, in all and per address. @param isExempt addresses without a share, such as proxies */
    limitConnections(
      server: { maxConnections: number; on(event: "connection", listener: (socket: Socket) => void): unknown },
      isExempt: (address: string) => boolean,
    ): void {
      server.maxConnections = maxConnections;
      server.on("connection", (socket) => {
        const address = plainAddress(socket.remoteAddress ?? "");
        if (address === "" || isExempt(address)) return;
        const shares = sharesOf("connections", { userId: undefined, address });
        try {
          acquire(shares, 1);
        } catch {
          return void socket.destroy();
        }
        socket.once("close", () => {
          for (const { key } of shares) release(key, 1);
        });
      });
    },
  };
}

const full = () => unavailable("Too many requests are in progress. Please try again in a moment.");

const tooManyConcurrent = () =>
  new ServiceError(Reason.TOO_MANY_CONCURRENT, "Too many of your requests are in progress. Wait for one to end.", {
    retryAfterSeconds: 1,
  });

const spareBytes = () =>
  Math.max(
    Math.min((getHeapStatistics().heap_size_limit - IDLE_HEAP_BYTES) * HEAP_FRACTION, spareMemory()),
    MIN_BUDGET_BYTES,
  );

const spareMemory = () =>
  Math.max(
    (memoryBytes() - Math.max(IDLE_MEMORY_BYTES, process.memoryUsage.rss())) * MEMORY_FRACTION,
    MIN_BUDGET_BYTES,
  );

/** The memory of the machine, or of the container. */
const memoryBytes = () => Math.min(process.constrainedMemory() || Number.POSITIVE_INFINITY, totalmem());
