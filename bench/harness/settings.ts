/** Settings of a run, from the environment. `npm run bench -- --help` lists them. */

/** Rounds of each row. Programs are measured in turns, round by round. */
export const ROUNDS = Number(process.env.BENCH_ROUNDS ?? 5);
/** Seconds of load per program and round. */
export const SECONDS = Number(process.env.BENCH_SECONDS ?? 3);
/** PostgreSQL server in which each benchmark creates its own databases. */
export const DATABASE_SERVER =
  process.env.TEST_DATABASE_URL ?? "postgres://postgres@127.0.0.1:5432/postgres";
export const REDIS_URL = process.env.TEST_REDIS_URL ?? "redis://127.0.0.1:6379";

/** Whether a row is measured: BENCH_ONLY selects rows that contain its text. */
export const isChosen = (row: string): boolean => row.includes(process.env.BENCH_ONLY ?? "");
