import { readFileSync } from "node:fs";
import { connect, createServer, type Socket } from "node:net";
import { TLSSocket } from "node:tls";
import { expect, test } from "vitest";
import { createDatabase } from "../support/database/databases.ts";
import { openQuietStore } from "../support/database/store.ts";
import { addressOf, listen, throughPort } from "../support/network/sockets.ts";
import { describeIf, forSuite, forTest } from "../support/suites.ts";

const certificate = (name: string) => `test/support/network/tls/${name}.pem`;
const key = "test/support/network/tls/ours.key";
/** The request of a PostgreSQL client for TLS (SSLRequest), and the positive reply. */
const TLS_REQUEST = Buffer.from("0000000804d2162f", "hex");
const YES = "S";

describeIf(process.env.TEST_SERVERS, "Database that accepts TLS only", async () => {
  const encrypting = await forSuite(startEncrypting(await createDatabase()));

  const ask = async (query: Record<string, string>) => {
    const store = await forTest(openQuietStore(`${encrypting.url}?${new URLSearchParams(query)}`));
    await store.migrate();
    return store.fork().execute("show application_name");
  };

  test("sslmode=require uses TLS and keeps the URL's other options", async () => {
    const answer = await ask({ sslmode: "require", application_name: "ours" });
    expect(answer).toEqual([{ application_name: "ours" }]);
  });

  test.each<Record<string, string>>([
    { sslmode: "verify-full", sslrootcert: certificate("ours") },
    { sslmode: "allow" },
    { sslmode: "prefer" },
  ])("is used over TLS with %j", async (query) => {
    await expect(ask(query)).resolves.toHaveLength(1);
  });

  type Unusable = { query: Record<string, string>; error: RegExp };
  const UNUSABLE: Unusable[] = [
    { query: { sslmode: "verify-full" }, error: /^DATABASE_URL can't be used: .*certificate/ },
    {
      query: { sslmode: "verify-full", sslrootcert: certificate("others") },
      error: /^DATABASE_URL can't be used: .*certificate/,
    },
    {
      query: { sslmode: "verifyfull" },
      error: /^DATABASE_URL can't be used: sslmode must be one of .*full$/,
    },
    { query: {}, error: /^DATABASE_URL: the database is not reachable/ },
  ];
  test.for(UNUSABLE)("is rejected with $query", async ({ query, error }) => {
    await expect(ask(query)).rejects.toThrow(error);
  });

  type Presented = { query: Record<string, string>; received: string | undefined };
  const PRESENTED: Presented[] = [
    { query: { sslmode: "require" }, received: undefined },
    {
      query: { sslmode: "require", sslcert: certificate("ours"), sslkey: key },
      received: readFileSync(certificate("ours"), "utf8"),
    },
  ];
  test.for(PRESENTED)("receives the client certificate of the URL: $query", async (row) => {
    const { query, received } = row;
    encrypting.clients.length = 0;
    await ask(query);
    expect(new Set(encrypting.clients)).toEqual(new Set([received]));
  });
});

/**
 * A proxy before a PostgreSQL server that accepts TLS only, with a certificate for localhost and
 * 127.0.0.1.
 */
async function startEncrypting(databaseUrl: string) {
  const { host, port } = addressOf(databaseUrl);
  const sockets = new Set<Socket>();
  const pair = { cert: readFileSync(certificate("ours")), key: readFileSync(key) };
  const clients: (string | undefined)[] = [];
  const keep = (socket: Socket) => sockets.add(socket.on("error", () => {}));
  const server = createServer((client) => {
    keep(client);
    client.once("data", (request: Buffer) => {
      if (!request.equals(TLS_REQUEST)) return client.destroy();
      client.write(YES);
      const near = new TLSSocket(client, { isServer: true, requestCert: true, ...pair });
      near.once("secure", () => clients.push(near.getPeerX509Certificate()?.toString()));
      const far = connect(port, host);
      for (const socket of [near, far]) keep(socket);
      near.pipe(far).pipe(near);
    });
  });
  return {
    /** The certificate of each client. */
    clients,
    url: throughPort(databaseUrl, await listen(server)),
    async close() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
