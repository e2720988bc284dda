import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { pino } from "pino";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openStore } from "../../services/store/open-store.ts";
import { createDatabase } from "../support/databases.ts";
import { startEncrypting } from "../support/tls-proxy.ts";

const certificate = (name: string) => `test/support/tls/${name}.pem`;

describe.runIf(process.env.TEST_SERVERS)("Database that accepts TLS only", () => {
  let through: URL;
  let encrypting: Awaited<ReturnType<typeof startEncrypting>>;
  beforeAll(async () => {
    through = new URL(await createDatabase(`tls_${randomUUID().slice(0, 8)}`));
    const target = { host: through.hostname, port: Number(through.port) || 5432 };
    encrypting = await startEncrypting(target, { cert: certificate("ours"), key: "test/support/tls/ours.key" });
    through.host = `127.0.0.1:${encrypting.port}`;
  });
  afterAll(() => encrypting.close());
  /** Asks it something. */
  const ask = async (query: Record<string, string>) => {
    through.search = `${new URLSearchParams(query)}`;
    const store = await openStore({ kind: "postgres", url: through.href }, pino({ level: "silent" }));
    try {
      await store.migrate();
      return await store.fork().execute("show application_name");
    } finally {
      await store.close();
    }
  };

  test("sslmode=require uses TLS and keeps the URL's other options", async () => {
    const answer = await ask({ sslmode: "require", application_name: "ours" });
    expect(answer).toEqual([{ application_name: "ours" }]);
  });

  test("sslmode=verify-full checks the certificate", async () => {
    await expect(ask({ sslmode: "verify-full", sslrootcert: certificate("ours") })).resolves.toHaveLength(1);
    for (const query of [{ sslmode: "verify-full" }, { sslmode: "verify-full", sslrootcert: certificate("others") }]) {
      await expect(ask(query)).rejects.toThrow(/^DATABASE_URL can't be used: .*certificate/);
    }
  });

  test("receives the client certificate that the URL names", async () => {
    encrypting.clients.length = 0;
    await ask({ sslmode: "require" });
    expect(new Set(encrypting.clients)).toEqual(new Set([undefined]));
    encrypting.clients.length = 0;
    await ask({ sslmode: "require", sslcert: certificate("ours"), sslkey: "test/support/tls/ours.key" });
    expect(new Set(encrypting.clients)).toEqual(new Set([readFileSync(certificate("ours"), "utf8")]));
  });

  test("the modes that leave the choice to the server use TLS; an unknown mode is refused", async () => {
    for (const sslmode of ["allow", "prefer"]) await expect(ask({ sslmode })).resolves.toHaveLength(1);
    await expect(ask({ sslmode: "verifyfull" })).rejects.toThrow(
      /^DATABASE_URL can't be used: sslmode must be one of .*full$/,
    );
  });

  test("is not used without TLS", async () => {
    await expect(ask({})).rejects.toThrow(/^DATABASE_URL: the database is not reachable/);
  });
});
