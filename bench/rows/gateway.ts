/** Routes of the gateway beside plain Fastify on the same data, with the same checks. */
import { inTurns } from "../harness/http-load.ts";
import { startServer } from "../harness/server.ts";
import { setStage } from "../harness/stage.ts";
import { report } from "../table.ts";

const stage = await setStage();
const { keys } = (await (await fetch(`${stage.server.url}/.well-known/jwks.json`)).json()) as {
  keys: unknown[];
};
const plain = await startServer(["bench/peers/plain-fastify.ts"], {
  DATABASE_URL: stage.databaseUrl,
  JWK: JSON.stringify(keys[0]),
});
const signedIn = {
  path: "/user/profile",
  headers: { authorization: `Bearer ${stage.accessToken}` },
};
try {
  report(
    "trivial route: GET /health/live",
    await inTurns({
      "plain Fastify": { server: plain, request: { path: "/health/live" } },
      Gatehouse: { server: stage.server, request: { path: "/health/live" } },
    }),
  );
  report(
    "trivial RPC: the public keys",
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
