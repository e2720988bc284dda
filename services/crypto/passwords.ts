import { availableParallelism } from "node:os";
import { hash, verify } from "@node-rs/argon2";
import { tooBusy } from "../platform/errors.ts";

/** Cost of an argon2id hash: memory in KiB, and passes over it. */
export type HashCost = { memoryCost: number; timeCost: number };

/** 19 MiB and 2 passes, in 1 lane (OWASP password storage cheat sheet). */
const DEFAULT_COST: HashCost = { memoryCost: 19_456, timeCost: 2 };
/** Hashes at once: one per core. The thread pool has further threads, for DNS and files: see `prepareNode`. */
const MAX_RUNNING = availableParallelism();
/** Callers that may wait for a hash. Further ones get 503. */
const MAX_WAITING = 256;

/** Password hashes (PHC strings). */
export type Passwords = {
  hash(password: string): Promise<string>;
  /** Whether the password is right. Without a hash, for an unknown account, it takes the same time and returns false. */
  matches(passwordHash: string | undefined, password: string): Promise<boolean>;
  /** Whether the hash has outdated parameters. */
  isOutdated(passwordHash: string): boolean;
  /** Callers that wait for a hash to start. */
  waiting(): number;
};

/** Creates the hasher. Its methods throw ServiceError UNAVAILABLE if too many callers wait. */
export async function createPasswords(cost = DEFAULT_COST): Promise<Passwords> {
  const { run, waiting } = createSemaphore();
  const parameters = { ...cost, parallelism: 1 };
  const prefix = `$argon2id$v=19$m=${cost.memoryCost},t=${cost.timeCost},p=1$`;
  const unknownHash = await hash("no account has this password", parameters);
  return {
    hash: (password) => run(() => hash(password, parameters)),
    async matches(passwordHash, password) {
      const equal = await run(() => verify(passwordHash ?? unknownHash, password));
      return equal && passwordHash !== undefined;
    },
    isOutdated: (passwordHash) => !passwordHash.startsWith(prefix),
    waiting,
  };
}

/** Bounds the hashes in progress; further callers wait, first come, first served. */
function createSemaphore() {
  let running = 0;
  const queue: (() => void)[] = [];
  return {
    /** @throws ServiceError UNAVAILABLE if too many callers wait */
    async run<T>(work: () => Promise<T>): Promise<T> {
      if (running < MAX_RUNNING) running++;
      else if (queue.length >= MAX_WAITING) throw tooBusy();
      else await new Promise<void>((resolve) => queue.push(resolve));
      try {
        return await work();
      } finally {
        const next = queue.shift();
        if (next) next();
        else running--;
      }
    },
    waiting: () => queue.length,
  };
}
