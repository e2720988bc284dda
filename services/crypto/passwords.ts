import { randomBytes } from "node:crypto";
import { availableParallelism } from "node:os";
import { hash, verify } from "@node-rs/argon2";
import { siteOf } from "../platform/gate/address.ts";
import { lowerPoolPriority } from "../platform/process/node.ts";
import { createSlotPool, type Slots } from "../platform/process/slots.ts";
import { tooBusy } from "../platform/rpc/errors.ts";
import { passwordForm } from "../platform/rpc/typed-text.ts";

/** Cost of an argon2id hash: memory in KiB and number of passes over it. */
export type HashCost = { memoryCost: number; timeCost: number };

/**
 * 20 MiB, 2 passes, 1 lane. OWASP recommends 19 MiB, but hashing is a quarter faster if the memory
 * consists of whole huge pages (2 MiB).
 */
const DEFAULT_COST: HashCost = { memoryCost: 20_480, timeCost: 2 };
/**
 * Slots for concurrent hashes, one per core. The thread pool has additional threads for DNS and
 * files: see `prepareNode`. Workers share the slots of the machine.
 */
const ownSlots = () => createSlotPool<"process">(availableParallelism()).add("process");
/** Number of random bytes in the password that no account has. */
const RANDOM_BYTES = 32;
/** Maximum number of callers waiting for a hash. Further callers get 503. */
const MAX_WAITING = 256;

/**
 * Result of checking a password. `outdated` means right, but the hash should be renewed: it has
 * older parameters, or was computed from the text as typed.
 */
export type PasswordCheck = "wrong" | "right" | "outdated";

/**
 * Hashes passwords (PHC strings) in composed form (NFC; RFC 8265 section 4.2, NIST SP 800-63B-4
 * section 3.1.1.2). Callers pass the client's address.
 */
export type Passwords = Awaited<ReturnType<typeof createPasswords>>;

/**
 * Creates the hasher. Its methods throw ServiceError UNAVAILABLE if too many callers are waiting.
 * @param slots limits the hashes that run at once; by default, one per core
 */
export async function createPasswords(cost = DEFAULT_COST, slots = ownSlots()) {
  const { run, assertCapacity, waiting } = createSemaphore(slots);
  const parameters = { ...cost, parallelism: 1 };
  const prefix = `$argon2id$v=19$m=${cost.memoryCost},t=${cost.timeCost},p=1$`;
  const noPassword = await hash(randomBytes(RANDOM_BYTES).toString("base64"), parameters);
  lowerPoolPriority();
  const isOutdated = (passwordHash: string) => !passwordHash.startsWith(prefix);
  /**
   * Checks a password. Text that is not in composed form is also compared as typed, since earlier
   * versions hashed it that way. Without a hash, for an unknown account, the check takes as long as
   * for a wrong password.
   */
  const check = (passwordHash: string | undefined, password: string, address?: string) =>
    run(address, async (): Promise<PasswordCheck> => {
      const stored = passwordHash ?? noPassword;
      const composed = passwordForm(password);
      const isRight = await verify(stored, composed);
      const isRaw = !isRight && composed !== password && (await verify(stored, password));
      if (passwordHash === undefined || !(isRight || isRaw)) return "wrong";
      return isRaw || isOutdated(passwordHash) ? "outdated" : "right";
    });
  return {
    /** The hash of an account without a password. No text matches it. */
    noPassword,
    hash: (password: string, address?: string) =>
      run(address, () => hash(passwordForm(password), parameters)),
    check,
    /** Whether the password is right, even if its hash is outdated. */
    matches: async (passwordHash: string | undefined, password: string, address?: string) =>
      (await check(passwordHash, password, address)) !== "wrong",
    assertCapacity,
    /** Whether the hash has outdated parameters. */
    isOutdated,
    waiting,
  };
}

/** A caller waiting for its turn. */
type Waiting = { network: string; start(): void; refuse(error: Error): void };

/**
 * Runs each hash in a slot. Waiting networks take turns, so that a flood from one network delays
 * logins from others by one hash.
 */
function createSemaphore(slots: Slots) {
  /** Waiting callers, in the order of their turns. */
  let waiting: Waiting[] = [];
  /** Requested slots, at most one more than there are waiting callers. */
  let requested = 0;
  const of = (network: string) => waiting.filter((caller) => caller.network === network);
  const notOf = (network: string) => waiting.filter((caller) => caller.network !== network);
  const longestQueue = () =>
    [...Map.groupBy(waiting, ({ network }) => network).values()].reduce(
      (a, b) => (b.length > a.length ? b : a),
      [],
    );
  const startNext = () => {
    requested--;
    const next = waiting.shift();
    if (!next) return slots.release(); // the caller that requested the slot was refused
    waiting = [...notOf(next.network), ...of(next.network)];
    next.start();
  };
  const wait = (network: string) =>
    new Promise<void>((start, refuse) => {
      waiting.push({ network, start, refuse });
      if (requested < waiting.length) {
        requested++;
        slots.request(startNext);
      }
      if (waiting.length <= MAX_WAITING) return;
      const last = longestQueue().at(-1);
      waiting = waiting.filter((caller) => caller !== last);
      last?.refuse(tooBusy());
    });
  return {
    /**
     * Throws if a caller with this address would be rejected now, so that a flood costs no database
     * statements.
     */
    assertCapacity(address: string): void {
      if (waiting.length >= MAX_WAITING && longestQueue().length <= of(siteOf(address)).length)
        throw tooBusy();
    },
    /**
     * @throws ServiceError UNAVAILABLE if too many callers are waiting and this network has the
     * most of them
     */
    async run<T>(address: string | undefined, work: () => Promise<T>): Promise<T> {
      await wait(address === undefined ? "" : siteOf(address));
      try {
        return await work();
      } finally {
        slots.release();
      }
    },
    /** Number of callers waiting for a hash to start. */
    waiting: () => waiting.length,
  };
}
