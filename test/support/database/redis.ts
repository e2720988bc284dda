// Redis servers and clusters that a test starts.

import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { freePort } from "../network/sockets.ts";
import { startDaemon } from "../processes/programs.ts";
import { times } from "../tally.ts";
import { temporaryFolder } from "../temporary-folder.ts";
import { until } from "../until.ts";

const NODES = 3;
const SLOTS = 16_384;

/**
 * Starts a Redis server that stores nothing.
 * @param login options of redis-cli, with which `ask` sends commands
 */
export async function startRedis(port: string, options: string[] = [], login: string[] = []) {
  const ask = async (...command: string[]) =>
    (await promisify(execFile)("redis-cli", ["-p", port, ...login, ...command])).stdout;
  const all = [
    "--port",
    port,
    "--bind",
    "127.0.0.1",
    "--save",
    "",
    "--dir",
    temporaryFolder(),
    ...options,
  ];
  const daemon = await startDaemon("redis-server", all, async () =>
    (await ask("ping")).startsWith("PONG"),
  );
  return { ...daemon, port, ask };
}

/** Starts a Redis cluster whose nodes need a password. */
export async function startRedisCluster(password: string) {
  const login = ["-a", password, "--no-auth-warning"];
  const startNode = async () => {
    const bus = await freePort();
    const options = ["--cluster-enabled", "yes", "--cluster-port", bus, "--requirepass", password];
    return { ...(await startRedis(await freePort(), options, login)), bus };
  };
  const nodes = await Promise.all(times(NODES, startNode));
  for (const [i, { ask }] of nodes.entries()) {
    const [from, below] = [i, i + 1].map((part) => Math.floor((part * SLOTS) / NODES)) as [
      number,
      number,
    ];
    await ask("cluster", "addslotsrange", `${from}`, `${below - 1}`);
    if (i > 0)
      await ask("cluster", "meet", "127.0.0.1", nodes[0]?.port as string, nodes[0]?.bus as string);
  }
  const isWhole = async ({ ask }: (typeof nodes)[0]) =>
    /cluster_state:ok[\s\S]*known_nodes:3/.test(await ask("cluster", "info"));
  await until("the cluster", async () => (await Promise.all(nodes.map(isWhole))).every(Boolean));
  return {
    urls: nodes.map(({ port }) => `redis://:${password}@127.0.0.1:${port}`),
    /** Stops a node. Its connections stay open, and it replies to nothing. */
    silence: (index: number) => void nodes[index]?.kill("SIGSTOP"),
    flush: async () => void (await Promise.all(nodes.map(({ ask }) => ask("flushall")))),
    close: async () => void (await Promise.all(nodes.map((node) => node.close()))),
  };
}
