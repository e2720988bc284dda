import { connect, type Socket } from "node:net";
import { resolve } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { expect, test } from "vitest";
import { signInAt } from "../support/accounts.ts";
import { conversationOf, startSuiteProvider } from "../support/ai/calls.ts";
import { freshStorage } from "../support/database/databases.ts";
import { postJson } from "../support/http/client.ts";
import { post } from "../support/http/raw.ts";
import { freePort } from "../support/network/sockets.ts";
import { readMetrics, startProcess } from "../support/processes/processes.ts";
import { forSuite } from "../support/suites.ts";
import { times } from "../support/tally.ts";
import { until } from "../support/until.ts";

const SLOW_READERS = 200;
const READ_SECONDS = 20;
const STREAMS = 10_000;
const AT_ONCE = 60;
/**
 * Idle connections to the provider close within this time. Up to ten connections to the database
 * stay.
 */
const REST_MS = 5_000;
/** The difference between two measurements of an idle process, by connections that stay open. */
const SLACK = 10;
const LISTENERS_OF_A_CONNECTION = 30;
const MIB = 1024 * 1024;
/**
 * The bytes a second that the provider may send to a reader of 1 KB a second, since the network
 * sends packets.
 */
const PAUSED_BYTES = 64 * 1024;
/** The largest buffers of the kernel for one connection, both ends together. */
const KERNEL_BYTES = 12 * MIB;

const simulator = await startSuiteProvider();
const metricsPort = await freePort();
const running = await forSuite(
  startProcess({
    RATE_LIMITS: "off",
    AI_STREAMS_PER_USER: "9999",
    LOG_LEVEL: "warn",
    NODE_OPTIONS: `--import=${resolve("test/resilience/preloads/counted-listeners.ts")}`,
    METRICS_PORT: metricsPort,
    ...simulator.env,
    ...(await freshStorage()),
  }),
);
const { accessToken: token } = await signInAt(running.url);
await runStreams(200); // loads and compiles modules

function send(path: string, content: string, signal?: AbortSignal) {
  return postJson(running.url + path, conversationOf(content), token, signal);
}

/** Runs streams in parallel. Every third is aborted. */
async function runStreams(count: number): Promise<void> {
  let left = count;
  const work = async () => {
    for (let mine = left--; mine > 0; mine = left--) {
      if (mine % 3 > 0) {
        expect(await (await send("/ai/stream", "case: plain")).text()).toMatch(
          /data: \[DONE\]\n\n$/,
        );
        continue;
      }
      const client = new AbortController();
      setTimeout(() => client.abort(), mine % 50);
      await send("/ai/stream", "case: silent-midway", client.signal).then(
        (answer) => answer.text().catch(() => {}),
        () => {},
      );
    }
  };
  await Promise.all(times(AT_ONCE, work));
}

/** Counts the listeners of all objects that are left after a garbage collection. */
async function countListeners(): Promise<number> {
  const counts = () => [...running.output().matchAll(/^listeners: (\d+)$/gm)];
  const { length } = counts();
  running.kill("SIGUSR2");
  return Number((await until("the count", () => counts()[length]))[1]);
}

const rss = async () =>
  (await readMetrics(metricsPort)).get("process_resident_memory_bytes") ?? Number.NaN;

/**
 * The bytes in heap and buffers, the resident bytes and other resources after a garbage collection.
 */
async function measure() {
  const listeners = await countListeners();
  const seen = await readMetrics(metricsPort);
  const of = (name: string, otherwise = Number.NaN) => seen.get(name) ?? otherwise;
  const heap = of("nodejs_heap_size_used_bytes");
  return {
    heapMiB: Math.round(heap / MIB),
    held: heap + of("nodejs_external_memory_bytes"),
    resident: of("process_resident_memory_bytes"),
    files: of("process_open_fds"),
    sockets: of('nodejs_active_resources{type="TCPSocketWrap"}', 0),
    timers: of('nodejs_active_resources{type="Timeout"}', 0),
    listeners,
  };
}

test(`Memory: ${SLOW_READERS} clients that read 1 KB a second of an endless reply use bounded memory, and the provider waits`, async () => {
  const before = await measure();
  const first = simulator.requests.length;
  const readers = times(SLOW_READERS, () => readSlowly());
  await until(
    "all requests at the provider",
    () => simulator.requests.length >= first + SLOW_READERS,
  );
  const sent = () =>
    simulator.requests.slice(first).reduce((sum, { sentBytes }) => sum + sentBytes, 0);
  const sentIn = async (ms: number) => {
    const already = sent();
    await wait(ms);
    return (sent() - already) / SLOW_READERS;
  };
  await until(
    "the provider to be paused",
    async () => (await sentIn(2_000)) < PAUSED_BYTES,
    90_000,
  );
  const more = (await sentIn(READ_SECONDS * 1_000)) / READ_SECONDS;
  const sentBytes = sent();
  const after = await measure();
  const growth = (part: "held" | "resident") => (after[part] - before[part]) / SLOW_READERS;
  const [each, resident] = [growth("held"), growth("resident")];
  for (const reader of readers) reader.destroy();
  process.stdout.write(
    `${SLOW_READERS} slow readers: ${(each / 1024).toFixed(0)} KiB each (resident: ${(resident / 1024).toFixed(0)}); the provider sent ${(sentBytes / SLOW_READERS / MIB).toFixed(2)} MiB each, then ${(more / 1024).toFixed(1)} KiB a second\n`,
  );
  expect(each).toBeLessThan(MIB);
  expect(resident).toBeLessThan(MIB);
  expect(sentBytes / SLOW_READERS).toBeLessThan(KERNEL_BYTES);
  expect(more).toBeLessThan(PAUSED_BYTES);
  await until("nothing open", () =>
    simulator.requests.every(({ closedAt }) => closedAt !== undefined),
  );
}, 180_000);

test.each(["large-reply 100000000", "endless-event", "endless"])(
  "Memory: a chat reply of 100 MB uses bounded memory and is an error: %s",
  async (name) => {
    const before = await rss();
    const first = simulator.requests.length;
    const answers = await Promise.all(times(4, () => send("/ai/chat", `case: ${name}`)));
    const grown = (await rss()) - before;
    for (const answer of answers) {
      expect(answer.status).toBe(500);
      expect(await answer.json()).toMatchObject({
        message: expect.stringContaining("reply too large"),
      });
    }
    for (const { sentBytes } of simulator.requests.slice(first))
      expect(sentBytes).toBeLessThan(100_000_000);
    process.stdout.write(`4 chat replies of ${name}: ${(grown / MIB).toFixed(0)} MiB in all\n`);
    expect(grown).toBeLessThan(4 * 100_000_000 * 0.8);
  },
  60_000,
);

test(`Leaks: ${STREAMS} streams, a third aborted, leave no memory, sockets, timers or listeners`, async () => {
  await wait(REST_MS);
  const before = await measure();
  await runStreams(STREAMS);
  await until("nothing open", () =>
    simulator.requests.every(({ closedAt }) => closedAt !== undefined),
  );
  await wait(REST_MS);
  const after = await measure();
  process.stdout.write(
    `${STREAMS} streams: before ${JSON.stringify(before)}, after ${JSON.stringify(after)}\n`,
  );
  for (const part of ["sockets", "files", "timers"] as const)
    expect(after[part], part).toBeLessThanOrEqual(before[part] + SLACK);
  expect(after.listeners).toBeLessThanOrEqual(before.listeners + SLACK * LISTENERS_OF_A_CONNECTION);
  expect(after.heapMiB).toBeLessThan(before.heapMiB + 10);
}, 600_000);

/** A client that reads 1 KB a second. */
function readSlowly(): Socket {
  const { hostname, port } = new URL(running.url);
  const socket = connect(Number(port), hostname).pause();
  const headers = `Authorization: Bearer ${token}\r\n`;
  socket.write(post("/ai/stream", conversationOf("case: endless"), { headers }));
  const reading = setInterval(() => socket.read(1_024), 1_000);
  return socket.on("close", () => clearInterval(reading)).on("error", () => {});
}
