import { availableParallelism } from "node:os";
import { hash, verify } from "@node-rs/argon2";
import { siteOf } from "../platform/gate/address.ts";
import { lowerPoolPriority } from "../platform/process/node.ts";
import { tooBusy } from "../platform/rpc/errors.ts";
import { passwordForm } from "../platform/rpc/typed-text.ts";

/** Cost of an argon2id hash: memory in KiB, and passes over it. */
export type HashCost = { memoryCost: number; timeCost: number };

/**
 * 20 MiB and 2 passes, in 1 lane: OWASP asks for 19 MiB, but memory of whole huge pages (2 MiB)
 * takes a quarter less time.
 */
const DEFAULT_COST: HashCost = { memoryCost: 20_480, timeCost: 2 };
/**
 * Hashes at once: one per core. The thread pool has further threads, for DNS and files: see
 * `prepareNode`.
 */
const MAX_RUNNING = availableParallelism();
/** Callers that may wait for a hash. Further ones get 503. */
const MAX_WAITING = 256;

/**
 * What a check of a password has found. `outdated` is right, too, but its hash is to be renewed: it
 * has older parameters, or is of the text as it was typed.
 */
export type PasswordCheck = "wrong" | "right" | "outdated";

/**
 * Password hashes (PHC strings) of the composed form (NFC; RFC 8265 section 4.2, NIST SP 800-63B-4
 * section 3.1.1.2). Callers name the address of their client.
 */
export type Passwords = Awaited<ReturnType<typeof createPasswords>>;

/** Creates the hasher. Its methods throw ServiceError UNAVAILABLE if too many callers wait. */
export async function createPasswords(cost = DEFAULT_COST) {
  const { run, assertCapacity, waiting } = createSemaphore();
  const parameters = { ...cost, parallelism: 1 };
  const prefix = `$argon2id$v=19$m=${cost.memoryCost},t=${cost.timeCost},p=1$`;
  const unknownHash = await hash("no account has this password", parameters);
  lowerPoolPriority();
  const isOutdated = (passwordHash: string) => !passwordHash.startsWith(prefix);
  /**
   * Checks a password. A text that is not composed is also compared as it is, as earlier versions
   * hashed it. Without a hash, for an unknown account, a check takes as long as that of a wrong
   * password.
   */
  const check = (passwordHash: string | undefined, password: string, address?: string) =>
    run(address, async (): Promise<PasswordCheck> => {
      const stored = passwordHash ?? unknownHash;
      const composed = passwordForm(password);
      const isRight = await verify(stored, composed);
      const isRaw = !isRight && composed !== password && (await verify(stored, password));
      if (passwordHash === undefined || !(isRight || isRaw)) return "wrong";
      return isRaw || isOutdated(passwordHash) ? "outdated" : "right";
    });
  return {
    hash: (password: string, address?: string) =>
      run(address, () => hash(passwordForm(password), parameters)),
    check,
    /** Whether the password is right, whatever its hash. */
    matches: async (passwordHash: string | undefined, password: string, address?: string) =>
      (await check(passwordHash, password, address)) !== "wrong",
    assertCapacity,
    /** Whether the hash has outdated parameters. */
    isOutdated,
    waiting,
  };
}

/** A caller that waits for its turn. */
type Waiting = { network: string; start(): void; refuse(error: Error): void };

/**
 * Bounds the hashes in progress. Waiting networks take turns, so that a flood from one delays
 * logins from others by one hash.
 */
function createSemaphore() {
  let running = 0;
  /** Callers in the order of their turns. */
  let waiting: Waiting[] = [];
  const of = (network: string) => waiting.filter((caller) => caller.network === network);
  const notOf = (network: string) => waiting.filter((caller) => caller.network !== network);
  const longestQueue = () =>
    [...Map.groupBy(waiting, ({ network }) => network).values()].reduce(
      (a, b) => (b.length > a.length ? b : a),
      [],
    );
  const startNext = () => {
    const next = waiting.shift();
    if (!next) return void running--;
    waiting = [...notOf(next.network), ...of(next.network)];
    next.start();
  };
  const wait = (network: string) =>
    new Promise<void>((start, refuse) => {
      waiting.push({ network, start, refuse });
      if (waiting.length <= MAX_WAITING) return;
      const last = longestQueue().at(-1);
      waiting = waiting.filter((caller) => caller !== last);
      last?.refuse(tooBusy());
    });
  return {
    /**
     * Throws if a caller of this address would be refused now: a flood is to cost no statements of
     * the database.
     */
    assertCapacity(address: string): void {
      if (waiting.length >= MAX_WAITING && longestQueue().length <= of(siteOf(address)).length)
        throw tooBusy();
    },
    /**
     * @throws ServiceError UNAVAILABLE if too many callers wait, and the most of them in the same
     * network
     */
    async run<T>(address: string | undefined, work: () => Promise<T>): Promise<T> {
      if (running < MAX_RUNNING) running++;
      else await wait(address === undefined ? "" : siteOf(address));
      try {
        return await work();
      } finally {
        startNext();
      }
    },
    /** Callers that wait for a hash to start. */
    waiting: () => waiting.length,
  };
}
