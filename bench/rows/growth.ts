/** The same requests on databases with 10,000 and 1,000,000 users, in turns. */

import { closeAll } from "../harness/cleanup.ts";
import { load } from "../harness/http-load.ts";
import { refreshLoad } from "../harness/refresh-load.ts";
import { seed } from "../harness/seed.ts";
import { ROUNDS, SECONDS } from "../harness/settings.ts";
import { setStage, signIn } from "../harness/stage.ts";
import { record } from "../table.ts";

const SIZES = [10_000, 1_000_000];
const SESSIONS = 16;

/**
 * Starts Gatehouse on a database with the given number of users and two audit events for each, and
 * signs one of them in several times.
 */
async function prepare(users: number) {
  const stage = await setStage();
  await seed(stage.databaseUrl, { users, events: 2 * users, emails: users / 10, calls: 0 });
  const tokens: string[] = [];
  while (tokens.length < SESSIONS)
    tokens.push((await signIn(stage.server, stage.credentials.email)).refreshToken);
  return { users, stage, tokens };
}

const measures: Record<string, (side: Awaited<ReturnType<typeof prepare>>) => Promise<number>> = {
  async "profile, 32 clients"({ stage }) {
    const headers = { authorization: `Bearer ${stage.accessToken}` };
    return (
      await load({ server: stage.server, request: { path: "/user/profile", headers } }, SECONDS)
    ).perSecond;
  },
  "refresh, 16 sessions": ({ stage, tokens }) => refreshLoad(stage.server.url, tokens, SECONDS),
  /** Must be the last row: its sessions replace those that refresh. */
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
