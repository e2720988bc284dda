import { setTimeout as wait } from "node:timers/promises";
import { afterAll, describe, expect, test } from "vitest";
import { accountsAt, signInAt } from "../support/accounts.ts";
import { startSuiteProvider } from "../support/ai/calls.ts";
import {
  ATTACKS,
  type Attack,
  type AttackName,
  cpuOf,
  peakOf,
  resetPeak,
  runAttack,
} from "../support/attacks/attack.ts";
import { BYSTANDER_CALLS, createBystanders, quantile } from "../support/attacks/bystanders.ts";
import { freshStorage } from "../support/database/databases.ts";
import { grpcUrlIn } from "../support/grpc.ts";
import { freePort } from "../support/network/sockets.ts";
import { type Process, startProcess, startServices } from "../support/processes/processes.ts";
import { times } from "../support/tally.ts";

const isFull = Boolean(process.env.TEST_FULL);
const ATTACK_MS = Number(process.env.ATTACK_MS ?? (isFull ? 60_000 : 5_000));
let attackers = 0;
/** Each attacker has its own address: those that were cut off may not come back at once. */
const nextAddress = () => `127.0.9.${++attackers}`;
const MIB = 1024 * 1024;
/** Time of the calls before the first attack: rows are of warm code. */
const WARM_UP_MS = 3_000;
/** Resident memory of a process in a container of 512 MB, in MiB. */
const MAX_PEAK_MIB = 400;
/** Heap and container, in MB, as the product derives one from the other. */
const SIZES: [heap: number, container: number][] = isFull
  ? [
      [256, 512],
      [512, 1024],
    ]
  : [[256, 512]];
const INTERNAL: AttackName = "connections of the internal listener";

/** An ordinary run has the attack of each port that costs most. */
const IN_GATE: { name: AttackName; who: string }[] = [
  { name: "gRPC tokens of unknown keys", who: "nobody" },
  { name: "pipelined requests that are not read", who: "nobody" },
];
const CASES = isFull
  ? ATTACKS.filter((name) => name !== INTERNAL).flatMap((name) =>
      ["nobody", "a user"].map((who) => ({ name, who })),
    )
  : IN_GATE;

const simulator = await startSuiteProvider();

describe.each(SIZES)(
  "Exhaustion: heap of %i MB in a container of %i MB",
  async (heap, container) => {
    const internalPort = Number(await freePort());
    const internalUrl = `tcp://127.0.0.1:${internalPort}`;
    const env = {
      ...(await freshStorage()),
      // As `npm start` and the image do: see "Admission and memory" in docs/operations.md.
      NODE_OPTIONS: `--max-old-space-size=${heap} --max-semi-space-size=16 --import=data:text/javascript,process.constrainedMemory=()=>${container * MIB}`,
      RATE_LIMITS: "off",
      ACCESS_TOKEN_TTL: "2h",
      TRUST_PROXY: "127.0.0.1",
      INTERNAL_SECRET: "between-gateway-and-services",
      ...simulator.env,
    };
    const whole = await startProcess(env);
    const services = await startServices({ ...env, INTERNAL_URL: internalUrl });
    const gateway = await startProcess({ ...env, SERVICES_URL: internalUrl });
    afterAll(async () => {
      for (const each of [gateway, services, whole]) expect(await each.end("SIGTERM")).toBe(0);
    });
    const { accessToken } = await signInAt(whole.url);
    const users = {
      accessToken,
      signingIn: await Promise.all(times(10, () => accountsAt(whole.url).addUser())),
    };
    const hostileUser = await signInAt(whole.url);
    const bystandersOf = (attacked: Process, front: Process) =>
      createBystanders({ rest: front.url, grpc: grpcUrlIn(attacked.output()) }, users);
    await bystandersOf(whole, whole).callUntil(wait(WARM_UP_MS));

    /**
     * Attacks. Prints a row: heap in MB, attack, attacker, latencies of the others (p50 / p99 in
     * ms), cores and peak memory of the attacked process in MiB, connections of the attacker.
     * @returns what failed for the others, and the peak memory
     */
    async function attackOn(
      attacked: Process,
      front: Process,
      attack: Omit<Attack, "ports" | "ms" | "address">,
    ) {
      const grpc = grpcUrlIn(attacked.output());
      const bystanders = bystandersOf(attacked, front);
      const ports = {
        rest: Number(new URL(front.url).port),
        grpc: Number(new URL(grpc).port),
        internal: internalPort,
      };
      const cpuBefore = cpuOf(attacked.pid);
      const startedAt = performance.now();
      resetPeak(attacked.pid);
      const attacking = runAttack({ ...attack, address: nextAddress(), ports, ms: ATTACK_MS });
      const { latencies, failures } = await bystanders.callUntil(attacking);
      const figures = BYSTANDER_CALLS.map((name) =>
        [0.5, 0.99].map((share) => quantile(latencies[name], share)).join(" / "),
      );
      const peak = peakOf(attacked.pid);
      const seconds = (performance.now() - startedAt) / 1_000;
      const cores = (cpuOf(attacked.pid) - cpuBefore) / seconds;
      const cells = [
        heap,
        attack.name,
        attack.token ? "user" : "nobody",
        ...figures,
        cores.toFixed(2),
        peak,
        await attacking,
      ];
      process.stdout.write(`| ${cells.join(" | ")} |\n`);
      return { failures, peak };
    }

    test.each(CASES)("$name, by $who: others are served, and memory is bounded", async (each) => {
      const { name, who } = each;
      const token = who === "nobody" ? undefined : hostileUser.accessToken;
      const { failures, peak } = await attackOn(whole, whole, { name, token });
      expect(failures).toEqual([]);
      expect(peak).toBeLessThan(MAX_PEAK_MIB * (heap / 256));
    });

    test(`${INTERNAL}: gateways are served, and memory is bounded`, async () => {
      const { failures, peak } = await attackOn(services, gateway, { name: INTERNAL });
      expect(failures).toEqual([]);
      expect(peak).toBeLessThan(MAX_PEAK_MIB * (heap / 256));
    });
  },
);
