/**
 * CPU profile of the main thread for each row of the table, summed by part of the program. Opens
 * the inspector of each server on the loopback interface.
 */
import { randomUUID } from "node:crypto";
import { startGatehouse } from "../harness/ai-contenders.ts";
import { type Contender, load as loadAi } from "../harness/ai-load.ts";
import { closeAll } from "../harness/cleanup.ts";
import { pinLoad } from "../harness/cores.ts";
import { load } from "../harness/http-load.ts";
import { refreshLoad } from "../harness/refresh-load.ts";
import { type Server, startServer } from "../harness/server.ts";
import { isChosen } from "../harness/settings.ts";
import { PASSWORD, setStage, signIn, signUp } from "../harness/stage.ts";

const SECONDS = Number(process.env.BENCH_SECONDS ?? 5);
const INTERVAL_MICROS = 500;
/** Parts of the program, by pattern of a function's name and file. The first match counts. */
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
    /node_modules\/(?:pino|sonic-boom|prom-client|@opentelemetry)|services\/(?:metrics|platform\/telemetry)/,
  ],
  ["gateway", /\/gateway\//],
  ["services: AI", /\/services\/ai\//],
  ["services: store", /\/services\/store\//],
  ["services: platform, servers", /\/services\/(?:platform|servers|interceptors)\//],
  ["services: the rest", /\/services\//],
  ["other packages", /node_modules\//],
  ["polling, native code, JSON", /./],
];
type Node = { id: number; callFrame: { functionName: string; url: string } };
type Profile = { nodes: Node[]; samples: number[]; timeDeltas: number[] };
type Column = { name: string; share: Map<string, number>; busy: number };

const columns: Column[] = [];
pinLoad("1");
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
  for (const email of emails) await signUp(stage.server, email);
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
  const login = emails.map((email) => ({ email, password: PASSWORD }));
  await row("login", [stage.server], (seconds) => run("/auth/login", login, seconds));
  const account = {
    email: "[<id>]@example.com",
    password: PASSWORD,
    name: "Ann",
    acceptTerms: true,
  };
  await row("register", [stage.server], (seconds) => run("/auth/register", [account], seconds));
  const signedIn = await Promise.all(
    emails.slice(0, 32).map((email) => signIn(stage.server, email)),
  );
  const sessions = signedIn.map(({ refreshToken }) => refreshToken);
  await row("refresh", [stage.server], (seconds) =>
    refreshLoad(stage.server.url, sessions, seconds),
  );
}

async function ai(): Promise<void> {
  const upstream = await startServer(["bench/peers/provider.ts"], {}, 1);
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

/** Warms up, then profiles each server under load. */
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

/** Starts a profile of a process. Returns a function that stops it. */
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

/** Returns the share of each part in the busy time, and the share of the busy time in all time. */
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
