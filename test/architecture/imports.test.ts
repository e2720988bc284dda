import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import { sourcesIn } from "./sources.ts";

const files = ["gen", "services", "gateway", "scripts"]
  .flatMap((folder) => sourcesIn(folder))
  .map(({ path }) => path);
const read = (file: string) => readFileSync(file, "utf8");

/** The own files that a file imports, also dynamically. Type imports do not exist at run time. */
function importsOf(
  file: string,
  { types, later = true }: { types: boolean; later?: boolean },
): string[] {
  const text = read(file);
  const lines = text.matchAll(
    /^(?:import|export)\s+(type\s+)?[^;]*?\bfrom\s+"(\.[^"]+)"|^import\s+"(\.[^"]+)"|\bimport\("(\.[^"]+)"\)/gms,
  );
  return [...lines]
    .filter(([, type, , , dynamic]) => (types || !type) && (later || !dynamic))
    .map(([, , ...paths]) => join(dirname(file), paths.find(Boolean) as string));
}

/** Some files, and all that they import in turn. */
function reachedFrom(entries: string[], later = true): string[] {
  const reached = new Set(entries);
  for (const file of reached)
    for (const next of importsOf(file, { types: false, later })) reached.add(next);
  return [...reached];
}

/** The imports that break a rule. */
const importsThat = (isWrong: (file: string, to: string) => boolean, types: boolean) =>
  files.flatMap((file) =>
    importsOf(file, { types })
      .filter((to) => isWrong(file, to))
      .map((to) => `${file} -> ${to}`),
  );

const layer = (file: string) => file.split("/")[0] as string;
const part = (file: string) => (file.startsWith("services/") ? (file.split("/")[1] as string) : "");

const LEAVES = ["platform", "store", "crypto"];
const BASE = [...LEAVES, "call.ts", "principal.ts"];
const DOMAINS = [
  ...BASE,
  "accounts",
  "audit",
  "devices",
  "external",
  "lockout",
  "mail",
  "mfa",
  "passkeys",
  "sessions",
  "webhooks",
];
/**
 * What each room of the services may import, beside itself and gen. Types count: a room that names
 * the type of another one depends on it. `app.ts` composes all of them and has no rule.
 */
const ALLOWED: Record<string, string[]> = {
  platform: [],
  store: ["platform"],
  crypto: ["platform"],
  audit: BASE,
  mail: BASE,
  lockout: [...BASE, "audit", "mail"],
  sessions: [...BASE, "audit", "mail"],
  mfa: [...BASE, "audit", "lockout", "mail"],
  passkeys: [...BASE, "audit", "mail"],
  external: BASE,
  accounts: [...BASE, "audit", "external", "lockout", "mail", "mfa", "passkeys"],
  devices: [...BASE, "accounts", "audit", "mail"],
  webhooks: [...BASE, "audit", "mail", "user"],
  auth: DOMAINS,
  user: [...DOMAINS, "auth"],
  admin: [...DOMAINS, "auth", "user"],
  ai: [...BASE, "accounts", "audit", "mail", "metrics.ts"],
  interceptors: [...DOMAINS, "metrics.ts"],
  jobs: [...BASE, "accounts", "mail", "mfa", "webhooks"],
  servers: ["platform", "app.ts"],
  "call.ts": [...LEAVES, "ai", "external", "mail", "metrics.ts", "principal.ts", "sessions"],
  "principal.ts": ["store"],
  "metrics.ts": ["platform"],
  "gauges.ts": ["platform", "store", "call.ts", "servers"],
  "router.ts": [...BASE, "accounts", "admin", "ai", "auth", "interceptors", "user"],
  "prepare.ts": [...DOMAINS, "admin"],
  "start-checks.ts": ["platform", "accounts", "ai", "external", "mail", "sessions"],
  "main.ts": ["platform", "process.ts"],
  "process.ts": ["platform", "app.ts", "prepare.ts", "servers", "start-checks.ts"],
};
/** The loop that queues share. It imports `platform` only. */
const QUEUE = "services/jobs/queue.ts";
/** What operators' commands, developers' tools and simulators may import beside their own room. */
const SCRIPTS: Record<string, string[]> = {
  commands: ["services", "gateway", "scripts/simulators"],
  tools: ["services", "gateway", "scripts/simulators"],
  simulators: [],
};

test("Imports: the gateway imports only gen and services/platform", () => {
  const isWrong = (file: string, to: string) => {
    if (layer(file) === layer(to) || layer(to) === "gen") return false;
    if (layer(file) === "scripts" || layer(to) === "scripts") return false; // have a rule of their own
    if (file.startsWith("gateway/") && to.startsWith("services/platform/")) return false;
    return !(file === "gateway/process.ts" && layer(to) === "services");
  };
  expect(importsThat(isWrong, true)).toEqual([]);
});

test("Imports: a room of the services imports only rooms that its rule allows", () => {
  const isWrong = (file: string, to: string) =>
    layer(to) === "services" &&
    part(to) !== part(file) &&
    !(to === QUEUE && ["mail", "webhooks"].includes(part(file))) &&
    ALLOWED[part(file)]?.includes(part(to)) === false;
  expect(importsThat(isWrong, true)).toEqual([]);
});

test("Imports: every room of the services has a rule", () => {
  const rooms = new Set(files.map(part).filter((room) => room !== "" && room !== "app.ts"));
  expect([...rooms].sort()).toEqual(Object.keys(ALLOWED).sort());
});

test("Imports: commands and tools import the product, simulators nothing, and the product no scripts", () => {
  const isWrong = (file: string, to: string) => {
    if (layer(file) !== "scripts") return layer(to) === "scripts";
    const [, room = ""] = file.split("/");
    const [root = "", toRoom] = to.split("/");
    if (root === "gen" || (root === "scripts" && toRoom === room)) return false;
    return !SCRIPTS[room]?.includes(root === "scripts" ? `scripts/${toRoom}` : root);
  };
  expect(importsThat(isWrong, true)).toEqual([]);
});

test("Imports: a standalone gateway loads no services", () => {
  const reached = reachedFrom(["gateway/main.ts", "gateway/server.ts"], false);
  expect(reached.filter((file) => layer(file) === "services" && part(file) !== "platform")).toEqual(
    [],
  );
});

test("Imports: only services/store contains SQL", () => {
  const sql =
    /\bem\.execute\(|\bprepared\(|[`"](?:select [^`"]* from|insert into|delete from|update \w+ (?:as \w+ )?set)\s/;
  const others = files.filter(
    (file) => file.startsWith("services/") && !file.startsWith("services/store/"),
  );
  expect(others.filter((file) => sql.test(read(file)))).toEqual([]);
});

test("Imports: large libraries are not imported statically", () => {
  const large = /^import\s+(?!type\b)[^;]*from\s+"(qrcode|@simplewebauthn\/|openid-client)/m;
  expect(files.filter((file) => large.test(read(file)))).toEqual([]);
});

test("Imports: only types are imported from provider SDKs", () => {
  const sdks = /^import\s+(?!type\b)[^;]*from\s+"(openai|@anthropic-ai\/sdk|@google\/genai)/m;
  expect(files.filter((file) => sdks.test(read(file)))).toEqual([]);
});

test("Imports: operators' commands load no development packages (`npm ci --omit=dev`)", () => {
  const { dependencies, scripts } = JSON.parse(read("package.json"));
  const ofOperators = [
    "prepare",
    "start",
    "start:services",
    "demo",
    "migrate",
    "admin",
    "audit:verify",
  ];
  const reached = reachedFrom(
    ofOperators.map((name) => scripts[name].match(/\S+\.ts$/)[0] as string),
  );
  const packages =
    /^(?:import|export)\s+(?!type\b)[^;]*?\bfrom\s+"(?!node:|\.)((?:@[^/"]+\/)?[^/"]+)/gms;
  const missing = reached.flatMap((file) =>
    [...read(file).matchAll(packages)]
      .filter(([, name]) => !((name as string) in dependencies))
      .map(([, name]) => `${file} -> ${name}`),
  );
  expect(missing).toEqual([]);
});

test("Imports: the client has no runtime dependency, and imports only its own files", () => {
  const { dependencies, peerDependencies } = JSON.parse(read("client/package.json"));
  expect([dependencies, peerDependencies]).toEqual([undefined, undefined]);
  const imports = sourcesIn("client/src").flatMap(({ text }) =>
    [...text.matchAll(/\bfrom "([^"]+)"/g)].map(([, from]) => from),
  );
  expect(imports.filter((from) => !from?.startsWith("./"))).toEqual([]);
});
