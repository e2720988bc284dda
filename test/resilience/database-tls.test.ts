import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { pino } from "pino";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openStore } from "../../services/store/store.ts";
import { createDatabase } from "../support/databases.ts";
import { startEncrypting } from "../support/encrypting.ts";

const certificate = (name: string) => `test/support/tls/${name}.pem`;

describe.runIf(process.env.TEST_SERVERS)("a database that takes TLS alone", () => {
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

  test("is asked for it by sslmode=require, and nothing else of the URL is lost", async () => {
    const answer = await ask({ sslmode: "require", application_name: "ours" });
    expect(answer).toEqual([{ application_name: "ours" }]);
  });

  test("is known by its certificate, or not used", async () => {
    await expect(ask({ sslmode: "verify-full", sslrootcert: certificate("ours") })).resolves.toHaveLength(1);
    for (const query of [{ sslmode: "verify-full" }, { sslmode: "verify-full", sslrootcert: certificate("others") }]) {
      await expect(ask(query)).rejects.toThrow(/^DATABASE_URL can't be used: .*certificate/);
    }
  });

  test("is shown the client's own certificate where the URL names one", async () => {
    encrypting.clients.length = 0;
    await ask({ sslmode: "require" });
    expect(new Set(encrypting.clients)).toEqual(new Set([undefined]));
    encrypting.clients.length = 0;
    await ask({ sslmode: "require", sslcert: certificate("ours"), sslkey: "test/support/tls/ours.key" });
    expect(new Set(encrypting.clients)).toEqual(new Set([readFileSync(certificate("ours"), "utf8")]));
  });

  test("is asked for it by the modes that leave the choice to it, and refused a mode that there isn't", async () => {
    for (const sslmode of ["allow", "prefer"]) await expect(ask({ sslmode })).resolves.toHaveLength(1);
    await expect(ask({ sslmode: "verifyfull" })).rejects.toThrow(
      /^DATABASE_URL can't be used: sslmode must be one of .*full$/,
    );
  });

  test("is not used without it", async () => {
    await expect(ask({})).rejects.toThrow(/^DATABASE_URL leads to no database that answers/);
  });
});
