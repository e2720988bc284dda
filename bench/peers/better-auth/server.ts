/**
 * better-auth on PostgreSQL with argon2id at Gatehouse's parameters, for the identity benchmark.
 */
import { createServer } from "node:http";
import { hash, verify } from "@node-rs/argon2";
import { betterAuth } from "better-auth";
import { getMigrations } from "better-auth/db/migration";
import { toNodeHandler } from "better-auth/node";
import pg from "pg";

const PARAMETERS = { memoryCost: 20_480, timeCost: 2, parallelism: 1 };

const options = {
  baseURL: "http://127.0.0.1",
  secret: "only-for-the-benchmark-0123456789abcdef",
  database: new pg.Pool({ connectionString: process.env.DATABASE_URL, max: 10 }),
  rateLimit: { enabled: false },
  telemetry: { enabled: false },
  advanced: { disableCSRFCheck: true },
  emailAndPassword: {
    enabled: true,
    password: {
      hash: (password: string) => hash(password, PARAMETERS),
      verify: ({ hash: stored, password }: { hash: string; password: string }) =>
        verify(stored, password),
    },
  },
};
await (await getMigrations(options)).runMigrations();
const server = createServer(toNodeHandler(betterAuth(options)));
server.listen(0, "127.0.0.1", () => {
  const address = server.address();
  if (address && typeof address === "object")
    process.stdout.write(`http://127.0.0.1:${address.port}\n`);
});
process.once("SIGTERM", () => process.exit(0));
