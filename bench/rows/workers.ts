/**
 * One worker beside several. Load and provider have the lowest priority, since real ones use other
 * machines. Two ways:
 *
 * - On all cores, as many workers as there are cores. What load, provider and databases need is
 *   missing from the workers, so that the limit is the rate at which all cores are busy with one
 *   call after the other, whatever runs them.
 * - With a quarter of a core for each worker, in turns, so that four of them leave the other cores
 *   to everything else, as on a machine with enough cores.
 *
 * Beside them bare `node:http` with the same queries.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { constants, setPriority } from "node:os";
import { closeAll } from "../harness/cleanup.ts";
import { CORES } from "../harness/cores.ts";
import { type Contestant, type Load, load } from "../harness/http-load.ts";
import { type Server, startServer } from "../harness/server.ts";
import { isChosen, REDIS_URL, ROUNDS, SECONDS } from "../harness/settings.ts";
import { type Stage, setStage } from "../harness/stage.ts";
import { median } from "../harness/statistics.ts";
import { record } from "../table.ts";

/** Clients of each worker, and the time in which its code gets warm. */
const CLIENTS = 32;
const WARM_UP_SECONDS = 5;
/** A clock tick of `/proc/stat`, in ms. */
const TICK_MS = 10;
/** Parts of a core in the second way, one for each worker. */
const PARTS = 4;
const COUNTS = [...new Set([1, 2, CORES, PARTS])].sort((a, b) => a - b);
const CHAT = JSON.stringify({
  provider: "provider-a",
  messages: [{ role: "user", content: "Say a few words, please, and then a few more." }],
});

type Round = Load & { machineMicros: number };
type Named = Contestant & { name: string; workers: number };
type Target = Omit<Contestant["request"], "headers">;

const provider = await startServer(["bench/peers/provider.ts"], {}, "all");
const env = { REDIS_URL, OPENAI_API_KEY: "bench-key", OPENAI_BASE_URL: `${provider.url}/v1` };
const stages = new Map<number, Stage>();
for (const count of COUNTS)
  stages.set(count, await setStage({ ...env, WORKERS: String(count) }, "all"));
const first = stages.get(1) as Stage;
const bare = new Map<number, Server>();
for (const count of COUNTS) {
  const own = { PEER: "bare-http", WORKERS: String(count), UPSTREAM: provider.url, REDIS_URL };
  const variables = { ...own, DATABASE_URL: first.databaseUrl };
  bare.set(count, await startServer(["bench/peers/clustered.ts"], variables, "all"));
}
for (const pid of [process.pid, provider.pid]) setPriority(pid, constants.priority.PRIORITY_LOW);
try {
  const profile: Target = { path: "/user/profile" };
  const chat: Target = { path: "/ai/chat", method: "POST", body: CHAT };
  for (const [where, counts, parts] of [
    ["all cores", [1, CORES], undefined],
    [`1/${PARTS} core each`, [1, 2, PARTS], PARTS],
  ] as const) {
    await row(`profile, ${where}`, ours(profile, counts), parts);
    await row(`chat, ${where}`, ours(chat, counts), parts);
    await row(`chat, ${where}, bare`, theirs(chat, counts), parts);
  }
} finally {
  await closeAll();
}

function headersOf({ accessToken }: Stage): Record<string, string> {
  return { authorization: `Bearer ${accessToken}`, "content-type": "application/json" };
}

function ours(target: Target, counts: readonly number[]): Named[] {
  return counts.map((workers) => {
    const stage = stages.get(workers) as Stage;
    const request = { ...target, headers: headersOf(stage) } as Contestant["request"];
    return { name: `${workers} of Gatehouse`, workers, server: stage.server, request };
  });
}

function theirs(target: Target, counts: readonly number[]): Named[] {
  return counts.map((workers) => {
    const request = { ...target, headers: headersOf(first) } as Contestant["request"];
    return { name: `${workers} bare`, workers, server: bare.get(workers) as Server, request };
  });
}

/**
 * Measures contestants in turns.
 * @param parts how many workers share a core in turns; undefined: they use all cores
 */
async function row(name: string, all: Named[], parts: number | undefined): Promise<void> {
  if (!isChosen(name)) return;
  const rounds = all.map(() => [] as Round[]);
  for (const contestant of all) await warmUp(contestant);
  for (let round = 0; round < ROUNDS; round++) {
    for (const [i, contestant] of all.entries())
      rounds[i]?.push(await inTurns(contestant, parts, () => measure(contestant)));
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
    process.stdout.write(`  ${program.padEnd(18)} ${cells.join("   ")}\n`);
  }
}

/** Runs a measurement during which the workers run in turns. */
async function inTurns<T>(
  { server, workers }: Named,
  parts: number | undefined,
  run: () => Promise<T>,
): Promise<T> {
  if (parts === undefined) return run();
  const [own, ...children] = server.pids();
  const pids = (workers === 1 && children.length === 0 ? [own] : children).map(String);
  const duty = spawn(process.execPath, ["bench/harness/duty.ts", String(parts), ...pids], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  setPriority(duty.pid as number, 0);
  await once(duty.stdout, "data");
  try {
    return await run();
  } finally {
    const ended = once(duty, "exit");
    duty.kill("SIGTERM");
    await ended;
  }
}

function warmUp(contestant: Named): Promise<Load> {
  const { workers } = contestant;
  return load(contestant, WARM_UP_SECONDS * workers, CLIENTS * workers);
}

async function measure(contestant: Named): Promise<Round> {
  const before = busyMs();
  const result = await load(contestant, SECONDS, CLIENTS * contestant.workers);
  if (result.failed > 0) throw new Error(`${result.failed} requests failed: the figures are void`);
  const machineMicros = ((busyMs() - before) * 1000) / (result.perSecond * SECONDS);
  return { ...result, machineMicros };
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
