import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { signInAt } from "../../support/accounts.ts";
import { conversationOf, startSuiteProvider } from "../../support/ai/calls.ts";
import { freshStorage } from "../../support/database/databases.ts";
import { freePort } from "../../support/network/sockets.ts";
import { startProcess } from "../../support/processes/processes.ts";
import { startDaemon } from "../../support/processes/programs.ts";
import { isMissing } from "../../support/suites.ts";
import { times } from "../../support/tally.ts";
import { temporaryFolder } from "../../support/temporary-folder.ts";

const simulator = await startSuiteProvider();
const read = (file: string) => readFileSync(`deploy/${file}`, "utf8");
type Panel = { title: string; targets: { expr: string }[] };
const panels: Panel[] = JSON.parse(read("grafana/dashboard.json")).panels;
const alerts = [...read("prometheus/alerts.yml").matchAll(/alert: (\w+)/g)].map(
  ([, name = ""]) => name,
);
/** The names of metrics in PromQL. */
const METRIC = /\b(?:up|(?:http|rpc|gen_ai|gatehouse|db|nodejs|process)_[a-z0-9_]+?)(?=[{[ )])/g;

test.skipIf(isMissing("promtool"))(
  "Alert rules: fire on their conditions, and are each explained in operations.md",
  () => {
    execFileSync("promtool", ["test", "rules", "alerts.test.yml"], {
      cwd: "deploy/prometheus",
      stdio: "pipe",
    });
    const tested = [...read("prometheus/alerts.test.yml").matchAll(/name: (Gatehouse\w+)/g)].map(
      ([, name]) => name,
    );
    expect(new Set(tested)).toEqual(new Set(alerts));
    const explained = readFileSync("docs/operations.md", "utf8");
    expect(alerts.filter((name) => !explained.includes(`**${name}**`))).toEqual([]);
  },
);

test.skipIf(isMissing("prometheus"))(
  "Dashboard and alert rules: every query finds values under load",
  async () => {
    const [metricsPort, port] = await Promise.all([freePort(), freePort()]);
    const settings = { METRICS_PORT: metricsPort, RATE_LIMITS: "off", ...simulator.env };
    const server = await startProcess({ ...(await freshStorage()), ...settings });
    const folder = temporaryFolder();
    const config = read("prometheus/prometheus.yml")
      .replaceAll("15s", "1s")
      .replace("127.0.0.1:9464", `127.0.0.1:${metricsPort}`)
      .replace("alerts.yml", resolve("deploy/prometheus/alerts.yml"));
    writeFileSync(join(folder, "prometheus.yml"), config);
    const url = `http://127.0.0.1:${port}`;
    const flags = [`config.file=${folder}/prometheus.yml`, `storage.tsdb.path=${folder}`];
    const args = [...flags, `web.listen-address=127.0.0.1:${port}`].map((flag) => `--${flag}`);
    const prometheus = await startDaemon(
      "prometheus",
      args,
      async () => (await fetch(`${url}/-/ready`)).ok,
    );
    // biome-ignore lint/suspicious/noExplicitAny: each query has its own shape
    const ask = async (path: string): Promise<any> =>
      ((await (await fetch(`${url}/api/v1/${path}`)).json()) as { data: unknown }).data;
    /** The values of a query now. */
    const query = async (expr: string): Promise<number[]> => {
      const promql = expr.replaceAll("$instance", ".*").replaceAll("$__rate_interval", "20s");
      const { result } = await ask(`query?query=${encodeURIComponent(promql)}`);
      const values = result.map(({ value }: { value: [number, string] }) => Number(value[1]));
      return values.filter((n: number) => !Number.isNaN(n));
    };
    onTestFinished(
      async () => void (await Promise.all([prometheus.close(), server.end("SIGKILL")])),
    );
    const { get, post } = await signInAt(server.url);
    const emptyPanels = async () => {
      for (const path of ["/ai/chat", "/ai/stream"])
        await post(path, conversationOf("case: plain"));
      await post("/ai/chat", conversationOf("case: bad-key"));
      await Promise.all(times(5, () => get("/user/profile")));
      const found = panels.flatMap(({ title, targets }) =>
        targets.map(async ({ expr }) => ({ title, n: (await query(expr)).length })),
      );
      return (await Promise.all(found)).filter(({ n }) => n === 0).map(({ title }) => title);
    };
    await expect.poll(emptyPanels, { timeout: 20_000 }).toEqual([]);
    const known: string[] = await ask("label/__name__/values");
    const rules = read("prometheus/alerts.yml").replace(/by \([^)]*\)|\{\{.*?\}\}/g, "");
    const used = [...new Set(rules.match(METRIC))];
    expect(used.length).toBeGreaterThan(8);
    expect(used.filter((name) => !known.includes(name))).toEqual([]);
    const { groups } = await ask("rules");
    expect(
      groups[0].rules.map(({ name, health }: Record<string, string>) => [name, health]),
    ).toEqual(alerts.map((name) => [name, "ok"]));
  },
);
