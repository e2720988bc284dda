/**
 * Lower bound of the cost of the account routes: an indexed SELECT, a hash, a durable statement,
 * two signatures.
 */
import { generateKeyPairSync } from "node:crypto";
import { hash, verify } from "@node-rs/argon2";
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
  await pool.query(
    "update sessions set generation = generation + 1, rotated_at = now() where id = $1 returning id",
    [process.env.SESSION_ID],
  );
  const [accessToken, refreshToken] = await Promise.all([
    sign("access", "15m"),
    sign("refresh", "7d"),
  ]);
  return { accessToken, refreshToken };
});

await pool.query(
  "create table if not exists bare_users (email text primary key, password_hash text not null)",
);
app.post<{ Body: { email: string; password: string } }>(
  "/auth/register",
  async ({ body }, reply) => {
    const passwordHash = await hash(body.password, {
      memoryCost: 20_480,
      timeCost: 2,
      parallelism: 1,
    });
    await pool.query("insert into bare_users values ($1, $2)", [body.email, passwordHash]);
    return reply.code(201).send({ email: body.email });
  },
);

app.post<{ Body: { email: string; password: string } }>("/auth/login", async ({ body }, reply) => {
  const { rows } = await pool.query(
    "select id, email, password_hash from users where canonical_email = $1",
    [body.email],
  );
  if (!(rows[0] && (await verify(rows[0].password_hash, body.password))))
    return reply.code(401).send();
  await pool.query("update users set last_login_at = now() where id = $1", [rows[0].id]);
  const [accessToken, refreshToken] = await Promise.all([
    sign("access", "15m"),
    sign("refresh", "7d"),
  ]);
  return { user: { id: rows[0].id, email: rows[0].email }, accessToken, refreshToken };
});

process.stdout.write(`${await app.listen({ host: "127.0.0.1", port: 0 })}\n`);
process.once("SIGTERM", () => process.exit(0));
