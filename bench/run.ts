import { printTable } from "./table.ts";

/** All benchmarks: a program in bench/rows each. The first three run by default. */
const BENCHMARKS = {
  gateway: "REST routes beside plain Fastify",
  identity: "sign-in, registration, refresh and profile beside better-auth and bare Fastify",
  ai: "chats and streams beside Portkey and a node:http pipe",
  v1: "/v1/chat/completions with a key, alone and under three budgets, beside /ai/chat",
  against:
    "this checkout beside another commit or folder (BENCH_REF, default HEAD~1) and an old one (BENCH_ANCHOR)",
  workers: "one worker beside several, with the load at low priority",
  growth: "the same requests with 10,000 and 1,000,000 users",
  profile: "CPU profile of each row, by part of the program",
  disk: "size of the tables after a year of 1,000 users",
  mail: "e-mails per second: --url postgres://<empty database> or memory: [--emails 10000]",
  "provider-clients": "CPU of the client side of a chat beside the vendors' SDKs",
  seed: "fills an empty database: --url postgres://… [--users] [--events] [--emails] [--calls]",
  console: "pages of the console of a seeded database: --url postgres://… [--samples 10]",
  lists:
    "administrators' lists of a seeded database: --url postgres://… [--tenth postgres://…] [--samples 200] [--only users] [--plans]",
};
const DEFAULT = ["gateway", "identity", "ai"];

const HELP = `npm run bench -- [benchmark…] [options of a benchmark]

Runs ${DEFAULT.join(", ")} by default. The programs of a row are measured in turns; a table ends the run.

${Object.entries(BENCHMARKS)
  .map(([name, about]) => `  ${name.padEnd(18)}${about}`)
  .join("\n")}

  BENCH_ONLY         only rows whose names contain this text
  BENCH_ROUNDS       rounds of each row (5)
  BENCH_SECONDS      seconds of load per program and round (3; profile: 5)
  BENCH_JSON         file for the figures of every round
  TEST_DATABASE_URL  PostgreSQL server (postgres://postgres@127.0.0.1:5432/postgres)
  TEST_REDIS_URL     Redis server (redis://127.0.0.1:6379)
`;

const words = process.argv.slice(2);
const firstOption = words.findIndex((word) => word.startsWith("-"));
const chosen = firstOption === -1 ? words : words.slice(0, firstOption);
const unknown = chosen.filter((name) => !(name in BENCHMARKS));
if (words.includes("--help") || unknown.length > 0) {
  for (const name of unknown) process.stderr.write(`There is no benchmark "${name}".\n\n`);
  process.stdout.write(HELP);
  process.exit(unknown.length);
}
for (const name of chosen.length > 0 ? chosen : DEFAULT) {
  process.stdout.write(`\n# ${name}\n`);
  await import(`./rows/${name}.ts`);
}
printTable();
