/**
 * The AI gateway beside a bare `node:http` pipe and Portkey's gateway: what it adds to the
 * provider's own time, and what it costs. Each server has a core of its own; load and provider
 * share another. Figures are medians over the rounds, ratios medians of each round's ratio.
 */
import { execFileSync } from "node:child_process";
import { availableParallelism } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import { direct, startGatehouse, startPipe, startPortkey } from "./ai/contenders.ts";
import { type Contender, type Kind, load, openStreams, type Sample } from "./ai/load.ts";
import { closeAll } from "./closing.ts";
import { isChosen, record } from "./results.ts";
import { median, startServer } from "./server.ts";

const ROUNDS = Number(process.env.BENCH_ROUNDS ?? 5);
const OPEN_STREAMS = 1_000;
const PAUSE_MS = 500;
/** Everyone who is measured, the provider without any gateway included. */
type Field = Record<"alone" | "pipe" | "portkey" | "bare" | "gatehouse" | "apart", Contender>;
/** Requests, how many of them at once, and over how long these begin. */
type Load = [kind: Kind, count: number, atOnce: number, spreadMs?: number];
/** How long a streamed reply takes: people who come one by one begin all over it. */
const REPLY_MS = 1_000;
/**
 * Enough that everyone's code is compiled by the time anything counts: ours gets cheaper up to
 * here, Portkey's too.
 */
const WARM_UP: Load[] = [
  ["chat", 15_000, 32],
  ["stream", 1_000, 250],
];
/**
 * What counts, in every round: latency is looked at where nothing queues, cost where it is busy.
 */
const LOADS: Record<string, Load> = {
  "chat, 1 at once": ["chat", 300, 1],
  "chat, 32 at once": ["chat", 2_000, 32],
  "stream, 10 at once": ["stream", 50, 10, REPLY_MS],
  "stream, 256 at once": ["stream", 768, 256, REPLY_MS],
  "stream, 256 begun together": ["stream", 768, 256],
};
const MEMORY = `resident memory per open stream, ${OPEN_STREAMS} open`;

if (availableParallelism() > 1 && process.platform === "linux") {
  execFileSync("taskset", ["-apc", "1", String(process.pid)], { stdio: "ignore" });
}
try {
  const upstream = await startServer(["bench/ai/upstream.ts"], {}, 1);
  const gatehouse = await startGatehouse(upstream);
  const field: Field = {
    alone: direct(upstream),
    pipe: await startPipe(upstream),
    portkey: await startPortkey(upstream),
    bare: gatehouse.bare,
    gatehouse: gatehouse.inOne,
    apart: gatehouse.apart,
  };
  if (isChosen(MEMORY)) await reportMemory(field); // first: the memory that a load has left would hide that of streams
  const chosen = Object.entries(LOADS).filter(([name]) => isChosen(name));
  if (chosen.length > 0) {
    for (const warmUp of WARM_UP)
      for (const contender of Object.values(field)) await load(contender, ...warmUp);
  }
  for (const [name, counted] of chosen) report(name, field, await inTurns(field, counted));
} finally {
  await closeAll();
}

/**
 * Everyone in every round, one after the other.
 * @returns each one's samples
 */
async function inTurns(field: Field, counted: Load): Promise<Map<Contender, Sample[]>> {
  const samples = new Map(Object.values(field).map((contender) => [contender, [] as Sample[]]));
  for (let round = 0; round < ROUNDS; round++) {
    for (const [contender, own] of samples) own.push(await load(contender, ...counted));
  }
  return samples;
}

function report(
  name: string,
  { alone, pipe, portkey }: Field,
  samples: Map<Contender, Sample[]>,
): void {
  process.stdout.write(`\n${name}\n`);
  const of = (contender: Contender, round: number) => samples.get(contender)?.[round] as Sample;
  const addedBy = (contender: Contender, round: number) =>
    of(contender, round).ms - of(alone, round).ms;
  for (const [{ name: program }, own] of samples) {
    record(
      name,
      "CPU µs",
      program,
      own.map(({ cpuMicros }) => cpuMicros),
    );
    record(
      name,
      "p50 ms",
      program,
      own.map(({ ms }) => ms),
    );
    record(
      name,
      "p99 ms",
      program,
      own.map(({ p99 }) => p99),
    );
  }
  for (const [contender, own] of samples) {
    const added = (to: Contender) =>
      median(own.map((_, round) => addedBy(contender, round) / addedBy(to, round))).toFixed(3);
    const cpu = (to: Contender) =>
      median(
        own.map((_, round) => of(contender, round).cpuMicros / of(to, round).cpuMicros),
      ).toFixed(2);
    const figures = [
      `${median(own.map(({ ms }) => ms)).toFixed(2)} ms`,
      `p99 ${median(own.map(({ p99 }) => p99)).toFixed(1)}`,
      `adds ${median(own.map((_, round) => addedBy(contender, round))).toFixed(2)} ms`,
      `${added(portkey)} of Portkey's`,
      `CPU ${median(own.map(({ cpuMicros }) => cpuMicros)).toFixed(0)} µs`,
      `${cpu(portkey)} of Portkey's`,
      `${cpu(pipe)} of the pipe's`,
    ];
    process.stdout.write(
      `  ${contender.name.padEnd(18)}${figures.map((text) => text.padStart(20)).join("")}\n`,
    );
  }
}

async function reportMemory({ pipe, portkey, bare, gatehouse, apart }: Field): Promise<void> {
  process.stdout.write(`\n${MEMORY}\n`);
  for (const contender of [pipe, portkey, bare, gatehouse, apart]) {
    const rss = () => contender.servers.reduce((sum, server) => sum + server.rssKiB(), 0);
    const before = rss();
    const close = await openStreams(contender, OPEN_STREAMS);
    await sleep(PAUSE_MS);
    const each = (rss() - before) / OPEN_STREAMS;
    close();
    await sleep(PAUSE_MS);
    record(MEMORY, "KiB", contender.name, [each]);
    process.stdout.write(`  ${contender.name.padEnd(18)}${each.toFixed(0).padStart(9)} KiB\n`);
  }
}
