/**
 * The AI gateway beside a bare `node:http` pipe and Portkey's gateway: what it adds to the provider's own time, and what
 * it costs. Each server has a core of its own; load and provider share another. Figures are medians over the rounds,
 * ratios medians of each round's ratio.
 */
import { execFileSync } from "node:child_process";
import { availableParallelism } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import { direct, startGatehouse, startPipe, startPortkey } from "./ai/contenders.ts";
import { type Contender, type Kind, load, openStreams, type Sample } from "./ai/load.ts";
import { median, startServer } from "./server.ts";

const ROUNDS = Number(process.env.BENCH_ROUNDS ?? 5);
const OPEN_STREAMS = 1_000;
const PAUSE_MS = 500;
/** Load of a round: requests, and how many at once. Latency is looked at where nothing queues, cost where it is busy. */
const LOADS: [name: string, kind: Kind, count: number, atOnce: number][] = [
  ["chat, 2 at once", "chat", 300, 2],
  ["chat, 32 at once", "chat", 1_200, 32],
  ["stream, 10 at once", "stream", 30, 10],
  ["stream, 150 at once", "stream", 450, 150],
];

if (availableParallelism() > 1 && process.platform === "linux") {
  execFileSync("taskset", ["-apc", "1", String(process.pid)], { stdio: "ignore" });
}
const upstream = await startServer(["bench/ai/upstream.ts"], {}, 1);
const pipe = await startPipe(upstream);
const portkey = await startPortkey(upstream);
const gatehouse = await startGatehouse(upstream);
const contenders = [direct(upstream), pipe.contender, portkey.contender, gatehouse.inOne, gatehouse.apart];
try {
  for (const [name, kind, count, atOnce] of LOADS) report(name, await inTurns(kind, count, atOnce));
  await reportMemory();
} finally {
  await Promise.all([gatehouse.close(), portkey.server.close(), pipe.server.close()]);
  await upstream.close();
}

/** Every contender in every round, one after the other. @returns each one's samples, by name */
async function inTurns(kind: Kind, count: number, atOnce: number): Promise<Map<string, Sample[]>> {
  const samples = new Map(contenders.map(({ name }) => [name, [] as Sample[]]));
  for (const contender of contenders) await load(contender, kind, Math.ceil(count / 3), atOnce); // warm up
  for (let round = 0; round < ROUNDS; round++) {
    for (const contender of contenders) samples.get(contender.name)?.push(await load(contender, kind, count, atOnce));
  }
  return samples;
}

function report(name: string, samples: Map<string, Sample[]>): void {
  process.stdout.write(`\n${name}\n`);
  const of = (contender: Contender) => samples.get(contender.name) ?? [];
  const [alone, bare, peer] = [of(contenders[0] as Contender), of(pipe.contender), of(portkey.contender)];
  for (const contender of contenders) {
    const own = of(contender);
    const added = own.map(({ ms }, i) => ms - (alone[i]?.ms ?? 0));
    const addedBy = (other: Sample[]) => median(added.map((ms, i) => ms / ((other[i]?.ms ?? 0) - (alone[i]?.ms ?? 0))));
    const cpuOf = (other: Sample[]) => median(own.map(({ cpuMicros }, i) => cpuMicros / (other[i]?.cpuMicros ?? 1)));
    const figures = [
      `${median(own.map(({ ms }) => ms)).toFixed(2)} ms`,
      `p99 ${median(own.map(({ p99 }) => p99)).toFixed(1)}`,
      `adds ${median(added).toFixed(2)} ms`,
      `${addedBy(peer).toFixed(3)} of Portkey's`,
      `CPU ${median(own.map(({ cpuMicros }) => cpuMicros)).toFixed(0)} µs`,
      `${cpuOf(peer).toFixed(2)} of Portkey's`,
      `${cpuOf(bare).toFixed(2)} of the pipe's`,
    ];
    process.stdout.write(`  ${contender.name.padEnd(18)}${figures.map((text) => text.padStart(17)).join("")}\n`);
  }
}

async function reportMemory(): Promise<void> {
  process.stdout.write(`\nresident memory per open stream, ${OPEN_STREAMS} open\n`);
  for (const contender of contenders.slice(1)) {
    const rss = () => contender.servers.reduce((sum, server) => sum + server.rssKiB(), 0);
    const before = rss();
    const close = await openStreams(contender, OPEN_STREAMS);
    await sleep(PAUSE_MS);
    const each = (rss() - before) / OPEN_STREAMS;
    close();
    await sleep(PAUSE_MS);
    process.stdout.write(`  ${contender.name.padEnd(18)}${each.toFixed(0).padStart(9)} KiB\n`);
  }
}
