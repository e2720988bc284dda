/**
 * One worker beside as many as there are cores, and twice as many. All may use every core. Load and
 * provider have the lowest priority, since real ones use other machines; what they and the databases
 * need is still missing from the workers. The limit is the rate at which all cores are busy with one
 * call after the other, whatever runs them. Beside it bare `node:http` with the same queries.
 */
import { readFileSync } from "node:fs";
import { constants, setPriority } from "node:os";
import { closeAll } from "../harness/cleanup.ts";
import { CORES } from "../harness/cores.ts";
import { type Contestant, load } from "../harness/http-load.ts";
import { startServer } from "../harness/server.ts";
import { isChosen, REDIS_URL, ROUNDS, SECONDS } from "../harness/settings.ts";
import { type Stage, setStage } from "../harness/stage.ts";
import { median } from "../harness/statistics.ts";
import { record } from "../table.ts";

const CLIENTS = 64;
const WARM_UP_SECONDS = 5;
/** A clock tick of `/proc/stat`, in ms. */
const TICK_MS = 10;
const COUNTS = [1, CORES, 2 * CORES];
const CHAT = JSON.stringify({
  provider: "provider-a",
  messages: [{ role: "user", content: "Say a few words, please, and then a few more." }],
});

type Round = { perSecond: number; cpuMicros: number; machineMicros: number };

const provider = await startServer(["bench/peers/provider.ts"], {}, "all");
const env = {
  REDIS_URL,
  OPENAI_API_KEY: "bench-key",
  OPENAI_BASE_URL: `${provider.url}/v1`,
};
const contestants: Record<string, Stage> = {};
for (const count of COUNTS)
  contestants[`${count} workers`] = await setStage({ ...env, WORKERS: String(count) }, "all");
const [first] = Object.values(contestants) as [Stage];
const bare: Record<string, Contestant["server"]> = {};
for (const count of COUNTS)
  bare[`bare node:http, ${count} workers`] = await startServer(
    ["bench/peers/clustered.ts"],
    {
      PEER: "bare-http",
      WORKERS: String(count),
      UPSTREAM: provider.url,
      DATABASE_URL: first.databaseUrl,
      REDIS_URL,
    },
    "all",
  );
for (const pid of [process.pid, provider.pid]) setPriority(pid, constants.priority.PRIORITY_LOW);
try {
  const requestOf = (token: string, rest: object) => ({
    ...rest,
    headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
  });
  const own = (rest: Omit<Contestant["request"], "headers">) =>
    Object.entries(contestants).map(([name, { server, accessToken }]) => ({
      name,
      contestant: { server, request: { ...rest, ...requestOf(accessToken, rest) } },
    }));
  const chat = { path: "/ai/chat", method: "POST", body: CHAT } as const;
  await row("profile, 64 clients, all cores", own({ path: "/user/profile" }));
  await row("chat, 64 clients, all cores", own(chat));
  const theirs = Object.entries(bare).map(([name, server]) => ({
    name,
    contestant: { server, request: { ...chat, ...requestOf(first.accessToken, chat) } },
  }));
  await row("chat, 64 clients, all cores, bare", theirs);
} finally {
  await closeAll();
}

/** Measures contestants in turns. */
async function row(name: string, all: { name: string; contestant: Contestant }[]): Promise<void> {
  if (!isChosen(name)) return;
  const rounds = all.map(() => [] as Round[]);
  for (const { contestant } of all) await load(contestant, WARM_UP_SECONDS, CLIENTS);
  for (let round = 0; round < ROUNDS; round++) {
    for (const [i, { contestant }] of all.entries()) rounds[i]?.push(await measure(contestant));
  }
  process.stdout.write(`\n${name}\n`);
  for (const [i, { name: program }] of all.entries()) {
    const of = (figure: (round: Round) => number) => (rounds[i] ?? []).map(figure);
    const figures = {
      "per second": of(({ perSecond }) => perSecond),
      "CPU µs": of(({ cpuMicros }) => cpuMicros),
      "CPU µs, whole machine": of(({ machineMicros }) => machineMicros),
      "limit per second": of(({ machineMicros }) => (CORES * 1e6) / machineMicros),
    };
    for (const [figure, values] of Object.entries(figures)) record(name, figure, program, values);
    const cells = Object.entries(figures).map(
      ([figure, values]) => `${figure} ${median(values).toFixed(0)}`,
    );
    process.stdout.write(`  ${program.padEnd(30)} ${cells.join("   ")}\n`);
  }
}

async function measure(contestant: Contestant): Promise<Round> {
  const before = busyMs();
  const { perSecond, cpuMicros, failed } = await load(contestant, SECONDS, CLIENTS);
  if (failed > 0) throw new Error(`${failed} requests failed: the figures are void`);
  const machineMicros = ((busyMs() - before) * 1000) / (perSecond * SECONDS);
  return { perSecond, cpuMicros, machineMicros };
}

/** CPU time of all processes of the machine so far, in ms. */
function busyMs(): number {
  const [line = ""] = readFileSync("/proc/stat", "utf8").split("\n", 1);
  const [user = 0, nice = 0, system = 0, , , irq = 0, softirq = 0] = line
    .split(/\s+/)
    .slice(1)
    .map(Number);
  return (user + nice + system + irq + softirq) * TICK_MS;
}
