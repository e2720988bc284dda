/**
 * `/v1/chat/completions` with an API key beside `/ai/chat` and `/ai/stream` with an access token,
 * of the same process; and the same under three budgets (of the deployment, the user and the key),
 * of a process whose calls they limit. Servers have one core, load and provider another.
 */
import { randomBytes } from "node:crypto";
import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pg from "pg";
import { direct } from "../harness/ai-contenders.ts";
import { type Contender, type Kind, load, type Sample } from "../harness/ai-load.ts";
import { closeAll } from "../harness/cleanup.ts";
import { pinLoad } from "../harness/cores.ts";
import { type Server, startServer } from "../harness/server.ts";
import { isChosen, REDIS_URL, ROUNDS } from "../harness/settings.ts";
import { PASSWORD, post, setStage, signUp } from "../harness/stage.ts";
import { median } from "../harness/statistics.ts";
import { record } from "../table.ts";

const USERS = 16;
const MODEL = "model-a-1";
/** Under a budget Gatehouse asks for whole replies as streams, which must not take longer then. */
const MESSAGES = {
  chat: [{ role: "user", content: "Say a few words, please, and all of them at once." }],
  stream: [{ role: "user", content: "Say a few words, please, and then a few more." }],
};
/** Duration of a streamed reply. Clients start spread over it. */
const REPLY_MS = 1_000;
type Load = [kind: Kind, count: number, atOnce: number, spreadMs?: number];
const WARM_UP: Load[] = [
  ["chat", 3_000, 32],
  ["stream", 256, 128],
];
const LOADS: Record<string, Load> = {
  "v1: chat, 1 at once": ["chat", 300, 1],
  "v1: chat, 32 at once": ["chat", 1_000, 32],
  "v1: stream, 10 at once": ["stream", 50, 10, REPLY_MS],
  "v1: stream, 128 at once": ["stream", 384, 128, REPLY_MS],
};

pinLoad("1");
try {
  const upstream = await startServer(["bench/peers/provider.ts"], {}, 1);
  const [free, limited] = [await open(upstream, false), await open(upstream, true)];
  const field: Contender[] = [
    withToken("/ai", free),
    withKey("/v1, key", free),
    withKey("/v1, key, three budgets", limited),
  ];
  const alone = direct(upstream);
  const chosen = Object.entries(LOADS).filter(([name]) => isChosen(name));
  for (const warmUp of WARM_UP) for (const contender of field) await load(contender, ...warmUp);
  for (const [name, counted] of chosen) report(name, await inTurns([...field, alone], counted));
} finally {
  await closeAll();
}

type Opened = { server: Server; tokens: string[]; keys: string[] };

/** Starts a process with signed-in users, each with a key. */
async function open(upstream: Server, hasBudgets: boolean): Promise<Opened> {
  const stage = await setStage({
    REDIS_URL,
    SECRET_KEY: randomBytes(32).toString("base64"),
    TRUST_PROXY: "127.0.0.1",
    AI_CATALOG: pricedCatalogue(),
    OPENAI_API_KEY: "bench-key",
    OPENAI_BASE_URL: `${upstream.url}/v1`,
  });
  const { server } = stage;
  const tokens: string[] = [];
  const keys: string[] = [];
  for (let user = 0; user < USERS; user++) {
    const { accessToken } = await signUp(server, `user-${user}@example.com`, `10.7.0.${user}`);
    const form = { name: "bench", password: PASSWORD };
    const created = await post(server, "/user/api-keys", form, bearer(accessToken));
    tokens.push(accessToken);
    keys.push(((await created.json()) as { key: string }).key);
  }
  if (hasBudgets) await addBudgets(stage.databaseUrl);
  return { server, tokens, keys };
}

function bearer(token: string) {
  return { authorization: `Bearer ${token}` };
}

/** Three budgets for each call, which none of them reaches: of money and of tokens. */
async function addBudgets(url: string): Promise<void> {
  const database = new pg.Client(url);
  await database.connect();
  await database.query(`
    insert into budgets (id, scope, subject, unit, period, limit_amount, created_at)
    select gen_random_uuid(), scope, subject, unit, 'month', 900000000000000, now() from (
      select 'deployment' as scope, '' as subject, 'cost' as unit
      union all select 'user', id::text, 'tokens' from users
      union all select 'key', id::text, 'cost' from api_keys) as b`);
  await database.end();
}

/** The shipped catalogue, with a price. */
function pricedCatalogue(): string {
  const catalogue = JSON.parse(readFileSync("services/ai/catalogue/neutral.json", "utf8"));
  catalogue.providers[0].models[0].price = { input: 1, output: 4 };
  const path = join(mkdtempSync(join(tmpdir(), "gatehouse-bench-")), "catalogue.json");
  writeFileSync(path, JSON.stringify(catalogue));
  return path;
}

function withToken(name: string, { server, tokens }: Opened): Contender {
  const bodyOf = (messages: object) =>
    JSON.stringify({ provider: "provider-a", model: MODEL, messages });
  const [whole, stream] = [bodyOf(MESSAGES.chat), bodyOf(MESSAGES.stream)];
  return {
    name,
    url: server.url,
    servers: [server],
    ask: (kind, turn) => ({
      path: kind === "chat" ? "/ai/chat" : "/ai/stream",
      headers: bearer(tokens[turn % USERS] as string),
      body: kind === "chat" ? whole : stream,
    }),
  };
}

function withKey(name: string, { server, keys }: Opened): Contender {
  const whole = JSON.stringify({ model: MODEL, messages: MESSAGES.chat });
  const stream = JSON.stringify({ model: MODEL, messages: MESSAGES.stream, stream: true });
  return {
    name,
    url: server.url,
    servers: [server],
    ask: (kind, turn) => ({
      path: "/v1/chat/completions",
      headers: bearer(keys[turn % USERS] as string),
      body: kind === "chat" ? whole : stream,
    }),
  };
}

/** Measures all contenders in turns. Returns the samples of each, by round. */
async function inTurns(field: Contender[], counted: Load): Promise<Map<string, Sample[]>> {
  const samples = new Map(field.map(({ name }) => [name, [] as Sample[]]));
  for (let round = 0; round < ROUNDS; round++)
    for (const contender of field)
      samples.get(contender.name)?.push(await load(contender, ...counted));
  return samples;
}

/** Prints CPU and times, beside those of the first program. */
function report(row: string, samples: Map<string, Sample[]>): void {
  process.stdout.write(`\n${row}\n`);
  const [first = []] = samples.values();
  for (const [program, own] of samples) {
    for (const [figure, key] of [
      ["CPU µs", "cpuMicros"],
      ["p50 ms", "ms"],
      ["p99 ms", "p99"],
    ] as const)
      record(
        row,
        figure,
        program,
        own.map((each) => each[key]),
      );
    const cpu = median(own.map(({ cpuMicros }, i) => cpuMicros / (first[i]?.cpuMicros ?? 1)));
    const added = median(own.map(({ ms }, i) => ms - (first[i]?.ms ?? 0)));
    const cells = [
      `${median(own.map(({ cpuMicros }) => cpuMicros))
        .toFixed(0)
        .padStart(7)} µs CPU`,
      `${cpu.toFixed(2)} of the first`,
      `p50 ${median(own.map(({ ms }) => ms)).toFixed(2)} ms`,
      `${added.toFixed(2)} ms more`,
    ];
    process.stdout.write(`  ${program.padEnd(26)}${cells.join("   ")}\n`);
  }
}
