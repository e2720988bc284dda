/**
 * The AI gateway beside a bare `node:http` pipe and Portkey's gateway: latency added to that of the
 * provider, and CPU. The servers under test run on one core, load and provider on another. Figures
 * are medians of the rounds, ratios are medians of each round's ratio.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { direct, startGatehouse, startPipe, startPortkey } from "../harness/ai-contenders.ts";
import { type Contender, type Kind, load, openStreams, type Sample } from "../harness/ai-load.ts";
import { closeAll } from "../harness/cleanup.ts";
import { pinLoad } from "../harness/cores.ts";
import { startServer } from "../harness/server.ts";
import { isChosen, ROUNDS } from "../harness/settings.ts";
import { median } from "../harness/statistics.ts";
import { record } from "../table.ts";

const OPEN_STREAMS = 1_000;
const PAUSE_MS = 500;
/** All contenders. `alone` is the provider without a gateway. */
type Field = Record<"alone" | "pipe" | "portkey" | "bare" | "gatehouse" | "apart", Contender>;
/** A number of requests, how many of them are concurrent, and the time over which these start. */
type Load = [kind: Kind, count: number, atOnce: number, spreadMs?: number];
/** Duration of a streamed reply. Independent clients start spread over it. */
const REPLY_MS = 1_000;
/** Enough for V8 to compile the code of all contenders: CPU per chat falls until here. */
const WARM_UP: Load[] = [
  ["chat", 15_000, 32],
  ["stream", 1_000, 250],
];
/** Measured in every round: latency where nothing queues, CPU where the server is busy. */
const LOADS: Record<string, Load> = {
  "chat, 1 at once": ["chat", 300, 1],
  "chat, 32 at once": ["chat", 2_000, 32],
  "stream, 10 at once": ["stream", 50, 10, REPLY_MS],
  "stream, 256 at once": ["stream", 768, 256, REPLY_MS],
  "stream, 256 begun together": ["stream", 768, 256],
};
const MEMORY = `resident memory per open stream, ${OPEN_STREAMS} open`;

pinLoad("1");
try {
  const upstream = await startServer(["bench/peers/provider.ts"], {}, 1);
  const gatehouse = await startGatehouse(upstream);
  const field: Field = {
    alone: direct(upstream),
    pipe: await startPipe(upstream),
    portkey: await startPortkey(upstream),
    bare: gatehouse.bare,
    gatehouse: gatehouse.inOne,
    apart: gatehouse.apart,
  };
  if (isChosen(MEMORY)) await reportMemory(field); // first, since memory that is left from a load would hide that of streams
  const chosen = Object.entries(LOADS).filter(([name]) => isChosen(name));
  if (chosen.length > 0) {
    for (const warmUp of WARM_UP)
      for (const contender of Object.values(field)) await load(contender, ...warmUp);
  }
  for (const [name, counted] of chosen) report(name, field, await inTurns(field, counted));
} finally {
  await closeAll();
}

/** Measures all contenders in turns. Returns the samples of each, by round. */
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
