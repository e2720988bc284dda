import { readFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createDatabase } from "../support/databases.ts";
import { openQuietStore } from "../support/stores.ts";
import { startEncrypting } from "../support/tls-proxy.ts";

const certificate = (name: string) => `test/support/tls/${name}.pem`;

describe.runIf(process.env.TEST_SERVERS)("Database that accepts TLS only", () => {
  let encrypting: Awaited<ReturnType<typeof startEncrypting>>;
  beforeAll(async () => {
    const pair = { cert: certificate("ours"), key: "test/support/tls/ours.key" };
    encrypting = await startEncrypting(await createDatabase(), pair);
  });
  afterAll(() => encrypting.close());
  const ask = async (query: Record<string, string>) => {
    const store = await openQuietStore(`${encrypting.url}?${new URLSearchParams(query)}`);
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

  test("sslmode=allow and prefer use TLS, and an unknown mode is refused", async () => {
    for (const sslmode of ["allow", "prefer"]) await expect(ask({ sslmode })).resolves.toHaveLength(1);
    await expect(ask({ sslmode: "verifyfull" })).rejects.toThrow(
      /^DATABASE_URL can't be used: sslmode must be one of .*full$/,
    );
  });

  test("is not used without TLS", async () => {
    await expect(ask({})).rejects.toThrow(/^DATABASE_URL: the database is not reachable/);
  });
});
