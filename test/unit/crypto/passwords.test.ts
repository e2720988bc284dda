import { availableParallelism } from "node:os";
import { expect, test } from "vitest";
import { Reason } from "../../../gen/gatehouse/platform/v1/failure_pb.ts";
import { createPasswords } from "../../../services/crypto/passwords.ts";
import type { ServiceError } from "../../../services/platform/rpc/errors.ts";
import { CHEAP } from "../../support/app.ts";
import { times } from "../../support/tally.ts";

const IN_FLIGHT = availableParallelism();
const WAITING = 256;
const password = "Correct-horse-1";

test("Passwords: hashes are argon2id of 20 MiB and two passes, salted, over the full length of any text", async () => {
  const passwords = await createPasswords();
  const long = `${"🦜".repeat(63)}Ä`;
  const [first, second] = [await passwords.hash(long), await passwords.hash(long)];
  expect(first).toMatch(/^\$argon2id\$v=19\$m=20480,t=2,p=1\$/);
  expect(second).not.toBe(first);
  expect([await passwords.matches(first, long), passwords.isOutdated(first)]).toEqual([
    true,
    false,
  ]);
  expect(await passwords.matches(first, `${"🦜".repeat(63)}ä`)).toBe(false);
  expect(await passwords.matches(undefined, "no account has this password")).toBe(false);
});

test("Passwords: hashing and its queue are bounded, and further requests are refused with a time to retry", async () => {
  const passwords = await createPasswords(CHEAP);
  const bound = IN_FLIGHT + WAITING;
  const outcomes = await Promise.allSettled(times(bound + 10, () => passwords.hash(password)));
  const refused = outcomes
    .filter((o) => o.status === "rejected")
    .map((o) => o.reason as ServiceError);
  expect(refused).toHaveLength(10);
  for (const { reason, details } of refused) {
    expect([reason, details.retryAfterSeconds]).toEqual([Reason.UNAVAILABLE, 1]);
  }
  expect(await passwords.matches(await passwords.hash(password), password)).toBe(true);
});

test("Passwords: later callers do not delay earlier ones, and a failure affects only its caller", async () => {
  const passwords = await createPasswords();
  const answered: string[] = [];
  const ask = (caller: string, hash: string) =>
    passwords.matches(hash, password).finally(() => answered.push(caller));
  const right = await passwords.hash(password);
  const first = times(IN_FLIGHT, () => ask("first", right));
  const later = [ask("later", right), ask("broken", "no hash"), ask("later", right)];
  await Promise.race(first);
  expect(new Set(answered)).toEqual(new Set(["first"]));
  const outcomes = await Promise.allSettled(later);
  expect(outcomes.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled"]);
});

test("Passwords: a caller elsewhere does not wait for a flood from a /48, which is refused first", async () => {
  const passwords = await createPasswords(CHEAP);
  let answered = 0;
  const count = () => ++answered;
  const ask = (address: string) => passwords.hash(password, address).then(count, () => "refused");
  const flood = times(IN_FLIGHT + WAITING, (i) => ask(`2001:db8:7:${i.toString(16)}::1`));
  expect(() => passwords.assertCapacity("2001:db8:7::1")).toThrow(/too many sign-ins/i);
  passwords.assertCapacity("10.0.0.1");
  expect(await ask("10.0.0.1")).toBeLessThan(WAITING / 2);
  expect((await Promise.all(flood)).filter((outcome) => outcome === "refused")).toHaveLength(1);
});
