import { availableParallelism } from "node:os";
import { hash, verify } from "@node-rs/argon2";
import { tooBusy } from "../refusal.ts";

/** argon2id: 19 MiB, 2 passes, 1 lane (OWASP password storage cheat sheet). */
const PARAMETERS = { memoryCost: 19_456, timeCost: 2, parallelism: 1 };
const PREFIX = `$argon2id$v=19$m=${PARAMETERS.memoryCost},t=${PARAMETERS.timeCost},p=${PARAMETERS.parallelism}$`;
/** Threads that Node computes on beside its own; DNS and files need them too. */
const POOL = 4;
/** Hashes at once; a core and a thread stay free for everything else. */
const IN_FLIGHT = Math.max(1, Math.min(availableParallelism(), POOL) - 1);
/** Callers that may wait for a turn; the next one is refused. */
const WAITING = 256;

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

/** Hashing with a bounded number in flight and waiting. Its calls throw Refusal UNAVAILABLE when too many wait. */
export async function createPasswords(): Promise<Passwords> {
  const turns = createTurns(IN_FLIGHT, WAITING);
  const { inTurn } = turns;
  const nobody = await hash("no account has this password", PARAMETERS);
  return {
    hash: (password) => inTurn(() => hash(password, PARAMETERS)),
    async matches(passwordHash, password) {
      const equal = await inTurn(() => verify(passwordHash ?? nobody, password));
      return equal && passwordHash !== undefined;
    },
    isOutdated: (passwordHash) => !passwordHash.startsWith(PREFIX),
    waiting: turns.waiting,
  };
}

function createTurns(atOnce: number, waiting: number) {
  let busy = 0;
  const queue: (() => void)[] = [];
  const inTurn = async <T>(work: () => Promise<T>): Promise<T> => {
    if (busy >= atOnce) {
      if (queue.length >= waiting) throw tooBusy();
      await new Promise<void>((resolve) => queue.push(resolve)); // the turn is handed over, not given back
    } else {
      busy++;
    }
    try {
      return await work();
    } finally {
      const next = queue.shift();
      if (next) next();
      else busy--;
    }
  };
  return { inTurn, waiting: () => queue.length };
}
