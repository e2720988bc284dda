/**
 * What users cost by their number: the same requests on databases of 10,000 and 1,000,000 users, in
 * turns.
 */
import { execFileSync } from "node:child_process";
import { chain } from "./chain.ts";
import { closeAll } from "./closing.ts";
import { record } from "./results.ts";
import { load } from "./server.ts";
import { post, type Stage, setStage } from "./stage.ts";

const SIZES = [10_000, 1_000_000];
const ROUNDS = Number(process.env.BENCH_ROUNDS ?? 5);
const SECONDS = Number(process.env.BENCH_SECONDS ?? 3);
const SESSIONS = 16;

/**
 * Gatehouse on a database with so many users, two audit events for each, and somebody signed in
 * several times.
 */
async function prepare(users: number) {
  const stage = await setStage();
  const counts = [
    "--users",
    String(users),
    "--events",
    String(2 * users),
    "--emails",
    String(users / 10),
  ];
  execFileSync(process.execPath, ["bench/seed.ts", "--url", stage.databaseUrl, ...counts], {
    stdio: "inherit",
  });
  const signIn = async () =>
    (await (await post(stage.server, "/auth/login", stage.credentials)).json()) as Stage;
  const tokens: string[] = [];
  while (tokens.length < SESSIONS) tokens.push((await signIn()).refreshToken);
  return { users, stage, tokens };
}

const measures: Record<string, (side: Awaited<ReturnType<typeof prepare>>) => Promise<number>> = {
  async "profile, 32 clients"({ stage }) {
    const headers = { authorization: `Bearer ${stage.accessToken}` };
    return (
      await load({ server: stage.server, request: { path: "/user/profile", headers } }, SECONDS)
    ).perSecond;
  },
  "refresh, 16 sessions": ({ stage, tokens }) => chain(stage.server.url, tokens, SECONDS),
  /** The last row: its sessions push out those that refresh. */
  async "login, 4 clients, one core"({ stage }) {
    const [method, headers] = ["POST", { "content-type": "application/json" }] as const;
    const request = {
      path: "/auth/login",
      method,
      headers,
      body: JSON.stringify(stage.credentials),
    };
    return (await load({ server: stage.server, request }, SECONDS, 4)).perSecond;
  },
};

try {
  const sides = [];
  for (const users of SIZES) sides.push(await prepare(users));
  for (const [row, measure] of Object.entries(measures)) {
    const rounds = sides.map(() => [] as number[]);
    for (let round = 0; round < ROUNDS; round++) {
      for (const [i, side] of sides.entries()) rounds[i]?.push(await measure(side));
    }
    for (const [i, { users }] of sides.entries())
      record(row, "per second", `${users} users`, rounds[i] ?? []);
  }
} finally {
  await closeAll();
}
