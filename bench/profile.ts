/**
 * Where the CPU time of a request goes, by row of the table: the main thread's profile in parts,
 * `npm run bench -- profile`. BENCH_ONLY chooses rows by a part of their names. The inspector of
 * each server opens on the loopback interface.
 */
import { execFileSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { availableParallelism } from "node:os";
import { startGatehouse } from "./ai/contenders.ts";
import { type Contender, load as loadAi } from "./ai/load.ts";
import { chain } from "./chain.ts";
import { closeAll } from "./closing.ts";
import { isChosen } from "./results.ts";
import { load, type Server, startServer } from "./server.ts";
import { post, type Stage, setStage } from "./stage.ts";

const SECONDS = Number(process.env.BENCH_SECONDS ?? 5);
const INTERVAL_MICROS = 500;
const password = "Correct-horse-1";
/**
 * What a function belongs to, by the file or, for functions without one, the name. The first that
 * matches holds.
 */
const PARTS: [part: string, pattern: RegExp][] = [
  ["garbage collection", /^\(garbage collector\)/],
  [
    "writes to sockets",
    /^(?:writev?|write\w*String|writeBuffer|shutdown|req\.oncomplete|sendmsg) $/,
  ],
  ["signatures", /^(?:run|SignJob) $|crypto|node_modules\/jose\//],
  ["hashes: handing over", /^(?:Verify|Hash)Task |argon2/],
  ["files", /^(?:openFileHandle|close|rename|stat|unlink) $|node:(?:internal\/)?fs/],
  ["Node's HTTP, sockets, streams", /node:/],
  ["Fastify", /node_modules\/(?:@?fastify|find-my-way|light-my-request|avvio|secure-json|fast-)/],
  ["protobuf, Connect", /node_modules\/@(?:bufbuild|connectrpc)\/|\/gen\//],
  ["PostgreSQL client, ORM", /node_modules\/(?:pg|postgres-|@mikro-orm|kysely)/],
  ["Redis client", /node_modules\/(?:@?ioredis|redis-|denque|standard-as-callback)/],
  ["mail", /node_modules\/nodemailer\/|services\/mail\//],
  [
    "log, metrics",
    /node_modules\/(?:pino|sonic-boom|prom-client|@opentelemetry)|services\/(?:metrics|platform\/log)/,
  ],
  ["gateway", /\/gateway\//],
  ["services: AI", /\/services\/ai\//],
  ["services: store", /\/services\/store\//],
  ["services: platform, gRPC", /\/services\/(?:platform|grpc|interceptors)\//],
  ["services: the rest", /\/services\//],
  ["other packages", /node_modules\//],
  ["polling, native code, JSON", /./],
];
type Node = { id: number; callFrame: { functionName: string; url: string } };
type Profile = { nodes: Node[]; samples: number[]; timeDeltas: number[] };
type Column = { name: string; share: Map<string, number>; busy: number };

const columns: Column[] = [];
if (availableParallelism() > 1 && process.platform === "linux") {
  execFileSync("taskset", ["-apc", "1", String(process.pid)], { stdio: "ignore" });
}
try {
  await accounts();
  await ai();
  print();
} finally {
  await closeAll();
}

async function accounts(): Promise<void> {
  const stage = await setStage({}, "all");
  const emails = Array.from({ length: 64 }, () => `${randomUUID()}@example.com`);
  for (const email of emails) {
    await post(stage.server, "/auth/register", { email, password, name: "Ann", acceptTerms: true });
  }
  const json = { method: "POST", headers: { "content-type": "application/json" } } as const;
  const run = (path: string, bodies: object[], seconds: number) =>
    load(
      {
        server: stage.server,
        request: {
          path,
          requests: bodies.map((body) => ({ ...json, path, body: JSON.stringify(body) })),
          idReplacement: true,
        },
      },
      seconds,
      8,
    );
  const login = emails.map((email) => ({ email, password }));
  await row("login", [stage.server], (seconds) => run("/auth/login", login, seconds));
  const account = { email: "[<id>]@example.com", password, name: "Ann", acceptTerms: true };
  await row("register", [stage.server], (seconds) => run("/auth/register", [account], seconds));
  const tokens = login.slice(0, 32).map(async (body) => {
    return ((await (await post(stage.server, "/auth/login", body)).json()) as Stage).refreshToken;
  });
  const sessions = await Promise.all(tokens);
  await row("refresh", [stage.server], (seconds) => chain(stage.server.url, sessions, seconds));
}

async function ai(): Promise<void> {
  const upstream = await startServer(["bench/ai/upstream.ts"], {}, 1);
  const { inOne, apart } = await startGatehouse(upstream);
  const chats = (contender: Contender, atOnce: number, each: number) => (seconds: number) =>
    loadAi(contender, "chat", seconds * each, atOnce);
  const streams = (contender: Contender) => (seconds: number) =>
    loadAi(contender, "stream", seconds * 200, 256);
  await row("chat, 32", inOne.servers, chats(inOne, 32, 2_000));
  await row("chat, 1", inOne.servers, chats(inOne, 1, 500));
  await row("stream, 256", inOne.servers, streams(inOne));
  await row("chat apart", apart.servers, chats(apart, 32, 1_000), ["gateway", "services"]);
  await row("stream apart", apart.servers, streams(apart), ["gateway", "services"]);
}

/** Warms up, then profiles each server while the load is on. */
async function row(
  name: string,
  servers: Server[],
  work: (seconds: number) => Promise<unknown>,
  labels = [""],
) {
  if (!isChosen(name)) return;
  await work(2 * SECONDS);
  const recordings = await Promise.all(servers.map(record));
  await work(SECONDS);
  for (const [i, stop] of recordings.entries()) {
    columns.push({ name: `${name} ${labels[i] ?? ""}`.trim(), ...sharesOf(await stop()) });
  }
}

/**
 * Starts a profile of a process.
 * @returns what ends it
 */
async function record({ pid, debugPort }: Server): Promise<() => Promise<Profile>> {
  process.kill(pid, "SIGUSR1");
  const url = await socketUrl(`http://127.0.0.1:${debugPort}/json/list`);
  const socket = new WebSocket(url);
  await new Promise((resolve) => socket.addEventListener("open", resolve, { once: true }));
  let id = 0;
  const send = (method: string, params = {}) =>
    new Promise<{ profile: Profile }>((resolve) => {
      const own = ++id;
      socket.addEventListener("message", ({ data }) => {
        const answer = JSON.parse(String(data)) as { id: number; result: { profile: Profile } };
        if (answer.id === own) resolve(answer.result);
      });
      socket.send(JSON.stringify({ id: own, method, params }));
    });
  await send("Profiler.enable");
  await send("Profiler.setSamplingInterval", { interval: INTERVAL_MICROS });
  await send("Profiler.start");
  return async () => {
    const { profile } = await send("Profiler.stop");
    socket.close();
    return profile;
  };
}

async function socketUrl(list: string): Promise<string> {
  for (;;) {
    const answer = await fetch(list).catch(() => undefined);
    const [target] = answer?.ok
      ? ((await answer.json()) as { webSocketDebuggerUrl: string }[])
      : [];
    if (target) return target.webSocketDebuggerUrl;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

/** @returns each part's share of the busy time, and the busy share of all time */
function sharesOf({ nodes, samples, timeDeltas }: Profile): Omit<Column, "name"> {
  const partOf = new Map(
    nodes.map(({ id, callFrame: { functionName, url } }) => {
      const text = `${functionName} ${url}`;
      return [
        id,
        functionName === "(idle)"
          ? undefined
          : PARTS.find(([, pattern]) => pattern.test(text))?.[0],
      ];
    }),
  );
  const times = new Map<string, number>();
  let [busy, all] = [0, 0];
  for (const [i, sample] of samples.entries()) {
    const time = timeDeltas[i] ?? 0;
    const part = partOf.get(sample);
    all += time;
    if (part === undefined) continue;
    busy += time;
    times.set(part, (times.get(part) ?? 0) + time);
  }
  return {
    share: new Map([...times].map(([part, time]) => [part, time / busy])),
    busy: busy / all,
  };
}

function print(): void {
  const percent = (value = 0) => (100 * value).toFixed(0);
  const lines = [
    ["share of the main thread's time, %", ...columns.map(({ name }) => name)],
    ["---", ...columns.map(() => "---:")],
    ...PARTS.map(([part]) => [part, ...columns.map(({ share }) => percent(share.get(part)))]),
    ["busy, of all time", ...columns.map(({ busy }) => percent(busy))],
  ];
  process.stdout.write(`\n${lines.map((cells) => `| ${cells.join(" | ")} |`).join("\n")}\n`);
}
