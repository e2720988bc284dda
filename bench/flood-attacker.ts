/**
 * The attacker of bench/flood.ts, in a process of its own: floods one port from one address until
 * it is ended or its time is over.
 */
import { Agent, request } from "node:https";
import { connect } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { connect as connectTls, type TLSSocket } from "node:tls";

const ADDRESS = "127.0.9.9";
const CONNECTIONS = 2_000;
const [kind, port, ms] = process.argv.slice(2) as [string, string, string];
const over = AbortSignal.timeout(Number(ms));
const agent = new Agent({ keepAlive: true, localAddress: ADDRESS, rejectUnauthorized: false });
const host = "api.example.com";

const floods: Record<string, () => Promise<unknown>> = {
  "half a header": () => hold(`GET /health HTTP/1.1\r\nhost: ${host}\r\nx-slow:`),
  "half a body": () =>
    hold(
      `POST /auth/login HTTP/1.1\r\nhost: ${host}\r\ncontent-type: application/json\r\ncontent-length: 400\r\n\r\n{"email":`,
    ),
  "large bodies without a token": () =>
    repeat(
      50,
      "POST",
      "/ai/chat",
      `{"provider":"provider-a","messages":[${'{"role":"user","content":"a"},'.repeat(30_000)}{}]}`,
    ),
  logins: () =>
    repeat(100, "POST", "/auth/login", '{"email":"ann@example.com","password":"Wrong-horse-1"}'),
  "unknown routes": () => repeat(100, "GET", "/nothing"),
};
await floods[kind]?.();
process.exit(0);

async function repeat(atOnce: number, method: string, path: string, body?: string): Promise<void> {
  const once = () =>
    new Promise<void>((resolve) => {
      const headers = { host, "content-type": "application/json" };
      const sending = request(
        { port, host: "127.0.0.1", method, path, headers, agent },
        (response) => {
          response.resume().on("close", resolve);
        },
      );
      sending.on("error", () => setTimeout(resolve, 5)).end(body);
    });
  const loop = async () => {
    while (!over.aborted) await once();
  };
  await Promise.all(Array.from({ length: atOnce }, loop));
}

/** Opens connections that send a beginning and nothing else; those that are closed come back. */
async function hold(beginning: string): Promise<void> {
  const open = new Set<TLSSocket>();
  while (!over.aborted) {
    for (let i = 0; i < 50 && open.size < CONNECTIONS; i++) {
      const raw = connect({ port: Number(port), host: "127.0.0.1", localAddress: ADDRESS });
      const socket = connectTls({ socket: raw, rejectUnauthorized: false });
      open.add(socket);
      socket.on("secureConnect", () => socket.write(beginning)).on("error", () => {});
      socket.on("close", () => open.delete(socket)).resume();
    }
    await sleep(20);
  }
  for (const socket of open) socket.destroy();
}
