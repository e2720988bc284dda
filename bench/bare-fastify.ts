/** The least that the same work can cost: one indexed SELECT by pg, and one durable UPDATE with two signatures. */
import { generateKeyPairSync } from "node:crypto";
import { fastify } from "fastify";
import { SignJWT } from "jose";
import pg from "pg";

const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL, max: 10 });
const { privateKey } = generateKeyPairSync("ed25519");
const app = fastify();

app.get("/user/profile", async () => {
  const { rows } = await pool.query(
    "select id, email, name, bio, role, created_at, updated_at from users where id = $1",
    [process.env.USER_ID],
  );
  return rows[0];
});

const sign = (type: string, lifetime: string) =>
  new SignJWT({ type, sid: process.env.SESSION_ID })
    .setProtectedHeader({ alg: "EdDSA" })
    .setSubject(process.env.USER_ID as string)
    .setIssuedAt()
    .setExpirationTime(lifetime)
    .sign(privateKey);

app.post("/auth/refresh", async () => {
  await pool.query("update sessions set generation = generation + 1, rotated_at = now() where id = $1 returning id", [
    process.env.SESSION_ID,
  ]);
  const [accessToken, refreshToken] = await Promise.all([sign("access", "15m"), sign("refresh", "7d")]);
  return { accessToken, refreshToken };
});

process.stdout.write(`${await app.listen({ host: "127.0.0.1", port: 0 })}\n`);
process.once("SIGTERM", () => process.exit(0));
