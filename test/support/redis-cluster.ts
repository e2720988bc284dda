import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { promisify } from "node:util";
import { freePort } from "./metrics.ts";
import { temporaryFolder } from "./temporary-folder.ts";
import { times, until } from "./until.ts";

const NODES = 3;
const SLOTS = 16_384;

/** Starts a Redis cluster whose nodes need a password. */
export async function startRedisCluster(password: string) {
  const places = await Promise.all(times(NODES, async () => ({ port: await freePort(), bus: await freePort() })));
  const ports = places.map(({ port }) => port);
  const nodes = places.map((place) => startNode(place, password));
  const ask = async (port: string, ...command: string[]) =>
    (await promisify(execFile)("redis-cli", ["-p", port, "-a", password, "--no-auth-warning", ...command])).stdout;
  const [first] = places as [Place];
  for (const [i, { port }] of places.entries()) {
    await until("a node to answer", async () => (await ask(port, "ping").catch(() => "")).startsWith("PONG"));
    const [from, below] = [i, i + 1].map((part) => Math.floor((part * SLOTS) / NODES)) as [number, number];
    await ask(port, "cluster", "addslotsrange", `${from}`, `${below - 1}`);
    if (i > 0) await ask(port, "cluster", "meet", "127.0.0.1", first.port, first.bus);
  }
  const isWhole = async (port: string) =>
    /cluster_state:ok[\s\S]*known_nodes:3/.test(await ask(port, "cluster", "info"));
  await until("the cluster", async () => (await Promise.all(ports.map(isWhole))).every(Boolean));
  return {
    urls: ports.map((port) => `redis://:${password}@127.0.0.1:${port}`),
    /** Stops a node. Its connections stay open, and it replies to nothing. */
    silence: (index: number) => void nodes[index]?.kill("SIGSTOP"),
    flush: async () => void (await Promise.all(ports.map((port) => ask(port, "flushall")))),
    async close() {
      await Promise.all(nodes.map((node) => node.kill("SIGKILL") && once(node, "exit")));
    },
  };
}

type Place = { port: string; bus: string };

function startNode({ port, bus }: Place, password: string): ChildProcess {
  const settings = {
    port,
    "cluster-port": bus,
    bind: "127.0.0.1",
    dir: temporaryFolder(),
    save: "",
    requirepass: password,
    "cluster-enabled": "yes",
  };
  const words = Object.entries(settings).flatMap(([name, value]) => [`--${name}`, value]);
  return spawn("redis-server", words, { stdio: "ignore" });
}
