import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { startDaemon } from "./daemon.ts";
import { freePort } from "./metrics.ts";
import { temporaryFolder } from "./temporary-folder.ts";
import { times, until } from "./until.ts";

const NODES = 3;
const SLOTS = 16_384;

/** Starts a Redis cluster whose nodes need a password. */
export async function startRedisCluster(password: string) {
  const places = await Promise.all(times(NODES, async () => ({ port: await freePort(), bus: await freePort() })));
  const ports = places.map(({ port }) => port);
  const ask = async (port: string, ...command: string[]) =>
    (await promisify(execFile)("redis-cli", ["-p", port, "-a", password, "--no-auth-warning", ...command])).stdout;
  const startNode = ({ port, bus }: Place) => {
    const plain = `--port ${port} --cluster-port ${bus} --bind 127.0.0.1 --cluster-enabled yes --requirepass ${password}`;
    const options = [...plain.split(" "), "--dir", temporaryFolder(), "--save", ""];
    return startDaemon("redis-server", options, async () => (await ask(port, "ping")).startsWith("PONG"));
  };
  const nodes = await Promise.all(places.map(startNode));
  const [first] = places as [Place];
  for (const [i, { port }] of places.entries()) {
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
    close: async () => void (await Promise.all(nodes.map((node) => node.close()))),
  };
}

type Place = { port: string; bus: string };
