import { availableParallelism } from "node:os";
import { hash, verify } from "@node-rs/argon2";
import { tooBusy } from "../platform/errors.ts";

/** What a hash of argon2id costs: memory in KiB, and passes over it. */
export type HashCost = { memoryCost: number; timeCost: number };

/** 19 MiB and 2 passes, in 1 lane (OWASP password storage cheat sheet). */
const DEFAULT_COST: HashCost = { memoryCost: 19_456, timeCost: 2 };
/** Threads that Node computes on beside its own; DNS and files need them too. */
const POOL = 4;
/** Hashes at once; a core and a thread stay free for everything else. */
const IN_FLIGHT = Math.max(1, Math.min(availableParallelism(), POOL) - 1);
/** Callers that may wait for a turn; the next one is refused. */
const WAITING = 256;

/**
 * Hashes in a row whose callers are answered together. A hash sweeps 19 MiB through the processor's caches: what a login
 * does after its own costs less right behind another login than behind another hash.
 */
const GROUP = 4;

/** Password hashes (PHC strings). */
export type Passwords = {
  hash(password: string): Promise<string>;
  /** Whether the password is the one; an account that does not exist costs the same. */
  matches(passwordHash: string | undefined, password: string): Promise<boolean>;
  /** The hash was made with other parameters than today's. */
  isOutdated(passwordHash: string): boolean;
  /** Callers that wait for their turn. */
  waiting(): number;
};

/** Hashing with a bounded number in flight and waiting. Its calls throw ServiceError UNAVAILABLE when too many wait. */
export async function createPasswords(cost = DEFAULT_COST): Promise<Passwords> {
  const turns = createTurns(IN_FLIGHT, WAITING);
  const { inTurn } = turns;
  const parameters = { ...cost, parallelism: 1 };
  const prefix = `$argon2id$v=19$m=${cost.memoryCost},t=${cost.timeCost},p=1$`;
  const nobody = await hash("no account has this password", parameters);
  return {
    hash: (password) => inTurn(() => hash(password, parameters)),
    async matches(passwordHash, password) {
      const equal = await inTurn(() => verify(passwordHash ?? nobody, password));
      return equal && passwordHash !== undefined;
    },
    isOutdated: (passwordHash) => !passwordHash.startsWith(prefix),
    waiting: turns.waiting,
  };
}

/** Callers wait for one of so many turns; those who waited together are served in groups, first come, first served. */
function createTurns(atOnce: number, waiting: number) {
  let busy = 0;
  /** Each does its work and returns what tells its caller. */
  const queue: (() => Promise<() => void>)[] = [];

  async function serve(): Promise<void> {
    busy++;
    while (queue.length > 0) {
      const answers: (() => void)[] = [];
      for (const work of queue.splice(0, GROUP)) answers.push(await work());
      for (const answer of answers) answer();
    }
    busy--;
  }

  return {
    inTurn<T>(work: () => Promise<T>): Promise<T> {
      return new Promise((resolve, reject) => {
        if (busy >= atOnce && queue.length >= waiting) throw tooBusy();
        queue.push(async () => {
          try {
            const result = await work();
            return () => resolve(result);
          } catch (error) {
            return () => reject(error);
          }
        });
        if (busy < atOnce) serve();
      });
    },
    waiting: () => queue.length,
  };
}
