import type { Store } from "../../../services/store/store.ts";
import { listCases } from "./cases.ts";

type Plan = {
  "Node Type": string;
  "Relation Name"?: string;
  "Index Name"?: string;
  "Actual Rows": number;
  "Actual Loops": number;
  "Rows Removed by Filter"?: number;
  "Shared Hit Blocks": number;
  "Shared Read Blocks": number;
  Plans?: Plan[];
};
type Explained = { "QUERY PLAN": [{ Plan: Plan; "Execution Time": number }] };

/** Wraps a store: each query is explained first, and its plan added to `explained`. */
function explaining(store: Store, explained: Explained[]): Store {
  return {
    ...store,
    fork() {
      const em = store.fork();
      const execute = em.execute.bind(em);
      em.execute = (async (sql: string, values: unknown[]) => {
        if (!/^explain|set_config|pg_class/.test(sql)) {
          explained.push(
            ...(await execute<Explained[]>(
              `explain (analyze, buffers, format json) ${sql}`,
              values,
            )),
          );
        }
        return execute(sql, values);
      }) as typeof em.execute;
      return em;
    },
  };
}

const nodesOf = (plan: Plan): Plan[] => [plan, ...(plan.Plans ?? []).flatMap(nodesOf)];

/**
 * Rows read by each plan node. Partitions and their indexes are summed under the name of their
 * parent; those that are not read are omitted.
 */
function waysOf(plan: Plan): Map<string, number> {
  const ways = new Map<string, number>();
  for (const node of nodesOf(plan)) {
    const name = node["Index Name"] ?? node["Relation Name"];
    const rows =
      (node["Actual Rows"] + (node["Rows Removed by Filter"] ?? 0)) * node["Actual Loops"];
    if (!name || node["Actual Loops"] === 0 || (node["Node Type"] === "Seq Scan" && rows === 0))
      continue;
    const way = `${node["Node Type"]} ${name.replace(/_(\d{4}_\d{2}|default)/, "")}`;
    ways.set(way, (ways.get(way) ?? 0) + rows);
  }
  return ways;
}

/** Prints the plan nodes of each list, the rows and blocks that they read, and the time in ms. */
export async function printPlans(store: Store, only: string): Promise<void> {
  const explained: Explained[] = [];
  process.stdout.write(
    "| list | page | plan nodes: rows read | blocks | ms |\n|---|---|---|---|---|\n",
  );
  for (const list of await listCases(explaining(store, explained))) {
    if (!list.name.startsWith(only)) continue;
    const { total, totalEstimated } = await list.read({});
    const requests = {
      "first page": {},
      "by cursor": { cursor: list.cursor({ total, ...(totalEstimated && { totalEstimated }) }) },
    };
    for (const [page, request] of Object.entries(requests)) {
      explained.length = 0;
      await list.read(request);
      const plans = explained.map((row) => row["QUERY PLAN"][0]);
      const ways = plans.map(({ Plan }) =>
        [...waysOf(Plan)].map(([way, rows]) => `${way}: ${Math.round(rows)}`).join(", "),
      );
      const blocks = plans.reduce(
        (sum, { Plan }) => sum + Plan["Shared Hit Blocks"] + Plan["Shared Read Blocks"],
        0,
      );
      const ms = plans.reduce((sum, plan) => sum + plan["Execution Time"], 0);
      process.stdout.write(
        `| ${list.name} | ${page} | ${ways.join(" · ")} | ${blocks} | ${ms.toFixed(1)} |\n`,
      );
    }
  }
}
