/**
 * The gateway's share of plain Fastify: a trivial route, and a profile read on the same rows with
 * the same checks.
 */
import { inTurns, report, startServer } from "./server.ts";
import { setStage } from "./stage.ts";

const stage = await setStage();
const { keys } = (await (await fetch(`${stage.server.url}/.well-known/jwks.json`)).json()) as {
  keys: unknown[];
};
const plain = await startServer(["bench/plain-fastify.ts"], {
  DATABASE_URL: stage.databaseUrl,
  JWK: JSON.stringify(keys[0]),
});
const signedIn = {
  path: "/user/profile",
  headers: { authorization: `Bearer ${stage.accessToken}` },
};
try {
  report(
    "a trivial route: GET /health/live",
    await inTurns({
      "plain Fastify": { server: plain, request: { path: "/health/live" } },
      Gatehouse: { server: stage.server, request: { path: "/health/live" } },
    }),
  );
  report(
    "a trivial RPC: the public keys",
    await inTurns({
      "plain Fastify": { server: plain, request: { path: "/trivial" } },
      Gatehouse: { server: stage.server, request: { path: "/.well-known/jwks.json" } },
    }),
  );
  report(
    "GET /user/profile",
    await inTurns({
      "plain Fastify": { server: plain, request: signedIn },
      Gatehouse: { server: stage.server, request: signedIn },
    }),
  );
} finally {
  await plain.close();
  await stage.close();
}
