import { afterAll, describe, expect, test } from "vitest";
import { accountsAt, signInAt } from "../support/accounts.ts";
import { startSuiteProvider } from "../support/ai-calls.ts";
import {
  ATTACKS,
  type Attack,
  type AttackName,
  peakOf,
  resetPeak,
  runAttack,
} from "../support/attacks/attack.ts";
import { BYSTANDER_CALLS, createBystanders, quantile } from "../support/attacks/bystanders.ts";
import { freshStorage } from "../support/databases.ts";
import { type Process, startProcess, startServices } from "../support/deployment.ts";
import { grpcUrlIn } from "../support/hostile.ts";
import { freePort } from "../support/metrics.ts";
import { times } from "../support/until.ts";

const isFull = Boolean(process.env.TEST_FULL);
const ATTACK_MS = Number(process.env.ATTACK_MS ?? (isFull ? 60_000 : 5_000));
const ATTACKER = "127.0.9.9";
const MIB = 1024 * 1024;
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

const simulator = await startSuiteProvider();

describe.each(SIZES)(
  "Exhaustion: heap of %i MB in a container of %i MB",
  async (heap, container) => {
    const internalPort = Number(await freePort());
    const internalUrl = `tcp://127.0.0.1:${internalPort}`;
    const env = {
      ...(await freshStorage()),
      NODE_OPTIONS: `--max-old-space-size=${heap} --import=data:text/javascript,process.constrainedMemory=()=>${container * MIB}`,
      RATE_LIMITS: "off",
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

    /** Attacks, and returns what bystanders and the memory of the attacked process met. */
    async function attackOn(
      attacked: Process,
      front: Process,
      attack: Omit<Attack, "ports" | "ms" | "address">,
    ) {
      const grpc = grpcUrlIn(attacked.output());
      const bystanders = createBystanders({ rest: front.url, grpc }, users);
      const ports = {
        rest: Number(new URL(front.url).port),
        grpc: Number(new URL(grpc).port),
        internal: internalPort,
      };
      resetPeak(attacked.pid);
      const attacking = runAttack({ ...attack, address: ATTACKER, ports, ms: ATTACK_MS });
      const { latencies, failures } = await bystanders.callUntil(attacking);
      const figures = BYSTANDER_CALLS.map((name) =>
        [0.5, 0.99].map((share) => quantile(latencies[name], share)).join(" / "),
      );
      const peak = peakOf(attacked.pid);
      const cells = [
        heap,
        attack.name,
        attack.token ? "user" : "nobody",
        ...figures,
        peak,
        await attacking,
      ];
      globalThis.process.stdout.write(`| ${cells.join(" | ")} |\n`);
      return { failures, peak };
    }

    test.each(
      ATTACKS.filter((name) => name !== INTERNAL).flatMap((name) => [
        [name, "nobody"] as const,
        [name, "a user"] as const,
      ]),
    )("%s, by %s: nobody else notices, and memory is bounded", async (name, who) => {
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
