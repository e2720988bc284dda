import type { Socket } from "node:net";
import { isIPv6 } from "node:net";
import { totalmem } from "node:os";
import { getHeapStatistics } from "node:v8";
import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { networkOf } from "./client.ts";
import { ServiceError } from "./errors.ts";

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
/** Internet providers often assign an IPv6 /48 to one customer. It has the share of this many addresses. */
const ADDRESSES_PER_SITE = 10;
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

/** Admission control against overload: bounds the concurrent work of a process by its memory, and each caller's share. */
export type Admission = {
  /** @throws ServiceError UNAVAILABLE if the process is full, TOO_MANY_CONCURRENT if the caller has used its share */
  acquire(request: AdmissionRequest): Permit;
  /** Limits a server's connections, in all and per address. @param isExempt addresses without a share, such as proxies */
  limitConnections(
    server: { maxConnections: number; on(event: "connection", listener: (socket: Socket) => void): unknown },
    isExempt: (address: string) => boolean,
  ): void;
};

/** Counts usage by key. A key without usage needs no memory. */
class Usage {
  readonly #counts = new Map<string, number>();

  /** @returns whether the amount fits below the maximum; if so it is added */
  tryAdd(key: string, amount: number, max: number): boolean {
    const count = (this.#counts.get(key) ?? 0) + amount;
    if (count > max) return false;
    this.#counts.set(key, count);
    return true;
  }

  remove(key: string, amount: number): void {
    const count = (this.#counts.get(key) ?? 0) - amount;
    if (count > 0) this.#counts.set(key, count);
    else this.#counts.delete(key);
  }
}

/** @param budgetBytes memory for requests, by default derived from heap limit and container memory */
export function createAdmission({ streamsPerUser = 20, budgetBytes = spareBytes() } = {}): Admission {
  const usage = new Usage();
  const maxRequests = Math.floor(budgetBytes / REQUEST_BYTES);
  const maxBodyBytes = (budgetBytes * BODY_FRACTION) / BYTES_PER_BODY_BYTE;
  const perCaller = Math.max(MIN_CALLER_REQUESTS, Math.floor(maxRequests * CALLER_FRACTION));
  const bodyBytesPerCaller = Math.max(MIN_CALLER_BODY_BYTES, maxBodyBytes * CALLER_FRACTION);
  const maxConnections = Math.floor(spareMemory() / CONNECTION_BYTES);
  const connectionsPerAddress = Math.max(MIN_CALLER_CONNECTIONS, Math.floor(maxConnections * CALLER_FRACTION));

  return {
    acquire({ kind, userId, isUserStream, address }) {
      const held: [key: string, amount: number][] = [];
      const release = () => {
        for (const [key, amount] of held.splice(0)) usage.remove(key, amount);
      };
      const add = (key: string, amount: number, max: number, error: () => ServiceError) => {
        if (!usage.tryAdd(key, amount, max)) {
          release();
          throw error();
        }
        held.push([key, amount]);
      };
      const caller = userId ?? address;
      const addShare = (what: string, amount: number, max: number) => {
        if (userId !== undefined) add(`${what}:${userId}`, amount, max, tooManyConcurrent);
        else if (address !== undefined) {
          for (const [network, factor] of networksOf(address)) {
            add(`${what}:${network}`, amount, max * factor, tooManyConcurrent);
          }
        }
      };
      if (kind === "watch") addShare("watch", 1, WATCHES_PER_ADDRESS);
      else if (kind !== "probe") addShare("requests", 1, perCaller);
      if (isUserStream && userId !== undefined) add(`streams:${userId}`, 1, streamsPerUser, tooManyConcurrent);
      const isLong = kind === "long-running" || kind === "watch";
      const fraction = isLong ? LONG_RUNNING_FRACTION : 1;
      add("requests", 1, kind === "probe" ? Number.POSITIVE_INFINITY : maxRequests * fraction, full);
      let bodyBytes = 0;
      return {
        reserveBody(bytes) {
          const more = bytes - Math.max(bodyBytes, SMALL_BODY_BYTES);
          if (more <= 0) return;
          bodyBytes = bytes;
          if (caller !== undefined) addShare("body", more, bodyBytesPerCaller);
          add("body", more, maxBodyBytes, full);
        },
        release,
      };
    },

    limitConnections(server, isExempt) {
      server.maxConnections = maxConnections;
      server.on("connection", (socket) => {
        const address = socket.remoteAddress;
        if (address === undefined || isExempt(address)) return;
        const keys = networksOf(address).map(([network, factor]) => [`connections:${network}`, factor] as const);
        const opened = keys.filter(([key, factor]) => usage.tryAdd(key, 1, connectionsPerAddress * factor));
        socket.once("close", () => {
          for (const [key] of opened) usage.remove(key, 1);
        });
        if (opened.length < keys.length) socket.destroy();
      });
    },
  };
}

/** The networks that an address counts for, with the factor of their share: IPv4 itself; IPv6 its /64, and its /48 tenfold. */
function networksOf(address: string): [network: string, factor: number][] {
  const network = networkOf(address);
  if (!isIPv6(address)) return [[network, 1]];
  return [
    [network, 1],
    [`${network.split(":").slice(0, 3).join(":")}::/48`, ADDRESSES_PER_SITE],
  ];
}

const full = () =>
  new ServiceError(Reason.UNAVAILABLE, "Too many requests are in progress. Please try again in a moment.", {
    retryAfterSeconds: 1,
  });

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
