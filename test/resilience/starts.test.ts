import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { readConfig } from "../../services/platform/config/config.ts";
import { createDatabase, freshStorage, runSql } from "../support/database/databases.ts";
import { freePort } from "../support/network/sockets.ts";
import { startProxy } from "../support/network/tcp-proxy.ts";
import { startProcess } from "../support/processes/processes.ts";
import { forTest } from "../support/suites.ts";
import { times } from "../support/tally.ts";
import { temporaryFolder } from "../support/temporary-folder.ts";
import { until } from "../support/until.ts";

const CERT = "test/support/network/tls/ours.pem";
const SECRET = { INTERNAL_SECRET: "between-gateway-and-services" };
const APART = { ...SECRET, SERVICES_URL: "http://127.0.0.1:1" };

describe.skipIf(!process.env.TEST_SERVERS)(
  "Start of several processes on an empty PostgreSQL",
  () => {
    test("succeeds, agrees on the signing key, and creates one administrator", async () => {
      const DATABASE_URL = await createDatabase("together");
      const env = {
        DATABASE_URL,
        SECRET_KEY: Buffer.alloc(32, 7).toString("base64"),
        ADMIN_EMAIL: "root@example.com",
        ADMIN_PASSWORD: "Correct-horse-1",
      };
      const processes = await Promise.all(
        times(3, () => startProcess({ ...env, DATA_DIR: temporaryFolder() })),
      );
      const rows = await runSql(
        DATABASE_URL,
        "select (select count(*)::int from signing_keys) as keys, (select count(*)::int from users where role = 'admin') as admins",
      );
      const ends = await Promise.all(processes.map((process) => process.end("SIGTERM")));
      expect(rows).toEqual([{ keys: 1, admins: 1 }]);
      expect(ends).toEqual([0, 0, 0]);
    });
  },
);

describe("Start with invalid settings", () => {
  const refusal = async (env: Record<string, string>, main?: string) => {
    const { DATABASE_URL = "memory:" } = await freshStorage();
    return startProcess({ DATABASE_URL, ...env }, main).then(
      () => "started",
      (error: Error) => error.message,
    );
  };
  async function expectRefusal(
    env: Record<string, string>,
    sentence: RegExp,
    main?: string,
  ): Promise<void> {
    const isWarning = (line: string) => line.includes('"level":40');
    const output = (await refusal(env, main)).trim().split("\n");
    const lines = output.filter((line) => !isWarning(line));
    expect(lines).toEqual([
      expect.stringContaining("can't start:"),
      expect.stringMatching(sentence),
    ]);
    expect(lines.join()).not.toContain("hidden");
  }

  test("fails with one line per variable of either part, without values", async () => {
    const env = {
      ADMIN_EMAIL: "root@example.com",
      ADMIN_PASSWORD: "hidden",
      SHUTDOWN_TIMEOUT: "hidden",
    };
    const error = await refusal({ ...env, PUBLIC_URL: "hidden" });
    expect(error).toContain("ended with 1: Gatehouse can't start:\n");
    const lines = error.split("\n").slice(1, -1);
    expect(lines.map((line) => line.trim().split(" ")[0]).sort()).toEqual([
      "ADMIN_PASSWORD",
      "PUBLIC_URL",
      "SHUTDOWN_TIMEOUT",
    ]);
    expect(error).not.toContain("hidden");
  });

  test("reports settings, catalogue, base URLs, certificates and locations together, before it opens the database", async () => {
    const DATA_DIR = join(temporaryFolder(), "data");
    const { problems: wrong } = readConfig({
      LOG_LEVEL: "loud",
      DATA_DIR,
      GEOIP_DB: "package.json",
    });
    expect(wrong).toEqual([expect.stringContaining("LOG_LEVEL")]);
    const env = {
      DATABASE_URL: "",
      DATA_DIR,
      LOG_LEVEL: "loud",
      GEOIP_DB: "package.json",
      GRPC_TLS_CERT: CERT,
      WELL_KNOWN: "package.json",
    };
    const problems = await refusal({
      ...env,
      GRPC_TLS_KEY: "hide",
      OPENAI_API_KEY: "x",
      OPENAI_BASE_URL: "not-a-url",
    });
    for (const name of ["LOG_LEVEL", "GEOIP_DB", "OPENAI_BASE_URL", "GRPC_TLS_KEY", "WELL_KNOWN"])
      expect(problems).toContain(name);
    expect(problems).not.toContain("hide"); // a key in the place of its path
    expect(await refusal({ ...APART, GRPC_TLS_CA: "none", LOG_LEVEL: "loud" })).toMatch(
      /LOG_LEVEL.*GRPC_TLS_CA/s,
    );
    const catalogue = await refusal({ ...env, AI_CATALOG: "package.json" });
    for (const name of ["LOG_LEVEL", "AI_CATALOG"]) expect(catalogue).toContain(name);
    expect(existsSync(DATA_DIR)).toBe(false);
  });

  const file = join(temporaryFolder(), "no-socket");
  writeFileSync(file, "");
  const wellKnown = temporaryFolder();
  writeFileSync(join(wellKnown, "jwks.json"), "{}");
  const root = { ADMIN_EMAIL: "Root-1@example.com" };
  const tls = {
    GRPC_TLS_CERT: CERT,
    GRPC_TLS_KEY: CERT.replace("pem", "key"),
    GRPC_TLS_CA: "package.json",
  };

  type Refused = { env: Record<string, string>; says: RegExp };
  const SERVICES: Refused[] = [
    { env: { ...root, ADMIN_PASSWORD: "hidden" }, says: /ADMIN_PASSWORD must [^\n]+$/ },
    {
      env: { ...root, ADMIN_PASSWORD: "P@ssw0rd", PASSWORD_BLOCKLIST: "on" },
      says: /ADMIN_PASSWORD is one of the most common passwords/,
    },
    {
      env: { ...root, ADMIN_PASSWORD: "root-1@Example.com" },
      says: /ADMIN_PASSWORD must not be your e-mail address or name/,
    },
    {
      env: { INTERNAL_URL: "unix:/nowhere/services.sock" },
      says: /INTERNAL_URL is not permitted for this user: .* a directory that the user/,
    },
    { env: { INTERNAL_URL: `unix:${file}` }, says: /INTERNAL_URL is already in use/ },
  ];
  test.concurrent.for(SERVICES)("services report the variable to correct: $env", async (row) => {
    await expectRefusal({ ...SECRET, ...row.env }, row.says, "services/main.ts");
    expect(existsSync(file)).toBe(true);
  });

  const LOCATIONS: Refused[] = [
    { env: tls, says: /GRPC_TLS_CA can't be used: .*$/ },
    {
      env: { ...APART, HOST: "not_a_host" },
      says: /HOST must be an address of this machine, or a host name for one: .*$/,
    },
    {
      env: { DATABASE_URL: "postgres://u:hidden@127.0.0.1:1/x" },
      says: /DATABASE_URL: the database is not reachable: .* correct DATABASE_URL\.$/,
    },
    {
      env: { WELL_KNOWN: wellKnown },
      says: /WELL_KNOWN: jwks.json is served by Gatehouse itself$/,
    },
    { env: { DATA_DIR: "package.json" }, says: /DATA_DIR can't be used: .*$/ },
    {
      env: { DATA_DIR: "package.json", SERVICES_URL: " " }, // a blank one: services in this process
      says: /DATA_DIR can't be used: .*$/,
    },
  ];
  test.concurrent.for(LOCATIONS)(
    "reports the variable of an unreachable or unwritable location: $env",
    ({ env, says }) => expectRefusal(env, says),
  );

  test("reports the variable of an occupied port", async () => {
    const { port } = await forTest(startProxy("tcp://127.0.0.1:1"));
    await expectRefusal({ ...APART, PORT: `${port}` }, /PORT is already in use: .* change PORT\.$/);
  });
});

describe.skipIf(!process.env.TEST_SERVERS)("Start on a database without free connections", () => {
  test("reports the database's own message", async () => {
    const url = new URL(await createDatabase("crowded"));
    const ownerUrl = url.href;
    url.username = `crowded_${process.env.TEST_RUN}`;
    url.password = "crowded"; // for servers that require one
    await runSql(
      ownerUrl,
      `create role ${url.username} login password 'crowded' connection limit 0`,
    );
    try {
      const started = startProcess({ DATABASE_URL: url.href });
      await expect(started).rejects.toThrow(
        `DATABASE_URL: the database currently refuses connections: too many connections for role "${url.username}". Try`,
      );
    } finally {
      await runSql(ownerUrl, `drop role ${url.username}`);
    }
  });
});

test("Start: prints the public address of the documentation", async () => {
  const readOn = async (env: Record<string, string>) => {
    const { url, output, end } = await startProcess({ ...(await freshStorage()), ...env });
    const docsUrl = await until(
      "the address of the documentation",
      () => /API reference: +(\S+)\n/.exec(output())?.[1],
    );
    expect(await end("SIGTERM")).toBe(0);
    return { url, docsUrl };
  };
  const [named, chosen] = await Promise.all([
    readOn({ PORT: await freePort(), PUBLIC_URL: "https://a.example/" }),
    readOn({}),
  ]);
  expect(named.docsUrl).toBe("https://a.example/docs");
  expect(chosen.docsUrl).toBe(`${chosen.url}/docs`);
});
