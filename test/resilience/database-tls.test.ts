import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { forSuite, forTest } from "../support/closing.ts";
import { createDatabase } from "../support/databases.ts";
import { describeIf } from "../support/skip-without.ts";
import { openQuietStore } from "../support/stores.ts";
import { startEncrypting } from "../support/tls-proxy.ts";

const certificate = (name: string) => `test/support/tls/${name}.pem`;
const key = "test/support/tls/ours.key";

describeIf(process.env.TEST_SERVERS, "Database that accepts TLS only", async () => {
  const encrypting = await forSuite(startEncrypting(await createDatabase(), { cert: certificate("ours"), key }));

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
  ])("is used by TLS with %j", async (query) => {
    await expect(ask(query)).resolves.toHaveLength(1);
  });

  test.each<[Record<string, string>, RegExp]>([
    [{ sslmode: "verify-full" }, /^DATABASE_URL can't be used: .*certificate/],
    [{ sslmode: "verify-full", sslrootcert: certificate("others") }, /^DATABASE_URL can't be used: .*certificate/],
    [{ sslmode: "verifyfull" }, /^DATABASE_URL can't be used: sslmode must be one of .*full$/],
    [{}, /^DATABASE_URL: the database is not reachable/],
  ])("is not used with %j", async (query, error) => {
    await expect(ask(query)).rejects.toThrow(error);
  });

  test.each<[Record<string, string>, string | undefined]>([
    [{ sslmode: "require" }, undefined],
    [{ sslmode: "require", sslcert: certificate("ours"), sslkey: key }, readFileSync(certificate("ours"), "utf8")],
  ])("receives the client certificate that the URL names: %j", async (query, received) => {
    encrypting.clients.length = 0;
    await ask(query);
    expect(new Set(encrypting.clients)).toEqual(new Set([received]));
  });
});
