/**
 * The same routes on the same data, written by hand for Fastify: the access token is verified with
 * the same library and cached; one prepared statement reads session and profile.
 */
import { fastify } from "fastify";
import { importJWK, type JWTPayload, jwtVerify } from "jose";
import { pino } from "pino";
import { openStore } from "../../services/store/open-store.ts";
import { prepared } from "../../services/store/statement.ts";

// biome-ignore lint/suspicious/noExplicitAny: an untyped row
const findProfile = prepared<{ sid: unknown; now: Date }, any>(
  "profile",
  `select u.id, u.email, u.name, u.bio, u.role, u.email_verified_at, u.mfa_secret, u.created_at, u.updated_at
  from sessions s join users u on u.id = s.user_id
  where s.id = :sid and s.revoked_at is null and s.expires_at > :now`,
);

const store = await openStore(
  { kind: "postgres", url: process.env.DATABASE_URL as string },
  pino({ level: "silent" }),
);
const key = await importJWK(JSON.parse(process.env.JWK as string), "EdDSA");
const verified = new Map<string, JWTPayload>();
const app = fastify();

app.get("/trivial", (_request, reply) =>
  reply.send({ keys: [JSON.parse(process.env.JWK as string)] }),
);

app.get("/health/live", (_request, reply) => reply.send({ status: "ok" }));

app.get("/user/profile", async (request, reply) => {
  const token = request.headers.authorization?.slice("Bearer ".length) ?? "";
  let claims = verified.get(token);
  if (!claims) {
    claims = (await jwtVerify(token, key, { algorithms: ["EdDSA"] })).payload;
    verified.set(token, claims);
  }
  const now = new Date();
  if ((claims.exp ?? 0) * 1000 <= now.getTime()) return reply.code(401).send();
  const [user] = await findProfile(store, { sid: claims.sid, now });
  if (!user) return reply.code(401).send();
  return {
    id: user.id,
    email: user.email,
    name: user.name,
    ...(user.bio !== null && { bio: user.bio }),
    role: user.role,
    emailVerified: user.email_verified_at !== null,
    mfaEnabled: user.mfa_secret !== null,
    createdAt: new Date(user.created_at).toISOString(),
    updatedAt: new Date(user.updated_at).toISOString(),
  };
});

process.stdout.write(`${await app.listen({ host: "127.0.0.1", port: 0 })}\n`);
process.once("SIGTERM", () => process.exit(0));
