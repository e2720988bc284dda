// nginx, HAProxy and Caddy with the configurations of deploy/proxy.

import { readFileSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { join, resolve } from "node:path";
import { startDaemon } from "../processes/programs.ts";
import { temporaryFolder } from "../temporary-folder.ts";
import { freePort } from "./sockets.ts";

/** The certificate of every proxy of these suites, for localhost. */
export const CA = readFileSync("test/support/network/tls/ours.pem");
const KEY = readFileSync("test/support/network/tls/ours.key");
const MAIN = process.getuid?.() === 0 ? "user root;\n" : "";

/** Ports of two replicas. */
export type Upstreams = { rest: [string, string]; grpc: [string, string] };

/**
 * How a configuration of deploy/proxy is used on free ports: replacements in its text, and the
 * command.
 */
type Rendering = {
  file: string;
  replace: (
    ports: Record<"rest" | "grpc" | "plain" | "plainGrpc", string>,
    folder: string,
  ) => [string, string][];
  command: (file: string, folder: string) => [string, string[]];
};

const BEHIND_BALANCER = "set_real_ip_from 127.0.0.1;\nreal_ip_header X-Forwarded-For;";

const KINDS = {
  nginx: {
    file: "nginx.conf",
    replace: ({ rest, grpc, plain, plainGrpc }, folder) => [
      [
        "worker_processes auto;",
        `${MAIN}daemon off;\nworker_processes auto;\npid ${folder}/pid;\nerror_log ${folder}/error.log;`,
      ],
      [
        "http {",
        `http {\n access_log off;\n client_body_temp_path ${folder}/body;\n proxy_temp_path ${folder}/proxy;`,
      ],
      ["/etc/nginx/", `${folder}/`],
      // Plain ports for clients with an address in X-Forwarded-For, as behind a load balancer.
      ["listen 443 ssl http2;", `listen ${rest} ssl http2;\nlisten ${plain};\n${BEHIND_BALANCER}`],
      [
        "listen 8443 ssl http2;",
        `listen ${grpc} ssl http2;\nlisten ${plainGrpc} http2;\n${BEHIND_BALANCER}`,
      ],
    ],
    command: (file, folder) => ["nginx", ["-p", folder, "-c", file]],
  },
  haproxy: {
    file: "haproxy.cfg",
    replace: ({ rest, grpc }, folder) => [
      ["bind :443", `bind ${rest}`],
      ["bind :8443", `bind ${grpc}`],
      ["/etc/haproxy/503.http", resolve("deploy/proxy/503.http")],
      ["/etc/haproxy/", `${folder}/`],
    ],
    command: (file) => ["haproxy", ["-db", "-f", file]],
  },
  caddy: {
    file: "Caddyfile",
    replace: ({ rest, grpc, plain }, folder) => [
      ["admin off", `admin off\n\thttp_port ${plain.replace(/.*:/, "")}\n\tdefault_bind 127.0.0.1`],
      ["api.example.com:443", rest.replace("127.0.0.1", "localhost")],
      ["api.example.com:8443", grpc.replace("127.0.0.1", "localhost")],
      ["/etc/caddy/", `${folder}/`],
    ],
    command: (file) => ["caddy", ["run", "--adapter", "caddyfile", "--config", file]],
  },
} satisfies Record<string, Rendering>;

/** Starts a proxy with its configuration of deploy/proxy. Only addresses and files are replaced. */
export async function startReverseProxy(kind: keyof typeof KINDS, { rest, grpc }: Upstreams) {
  const folder = temporaryFolder();
  const [a, b, c, d] = await Promise.all([freePort(), freePort(), freePort(), freePort()]);
  const at = (port: string) => `127.0.0.1:${port}`;
  const ports = { rest: at(a), grpc: at(b), plain: at(c), plainGrpc: at(d) };
  const rendering: Rendering = KINDS[kind];
  const upstreams = { "3000": rest[0], "3010": rest[1], "50051": grpc[0], "50061": grpc[1] };
  let text = readFileSync(`deploy/proxy/${rendering.file}`, "utf8").replaceAll(
    /127\.0\.0\.1:(3000|3010|50051|50061)\b/g,
    (_, port: keyof typeof upstreams) => at(upstreams[port]),
  );
  for (const [from, to] of rendering.replace(ports, folder)) {
    if (!text.includes(from)) throw new Error(`${rendering.file} has no ${from}`);
    text = text.replaceAll(from, to);
  }
  for (const [name, data] of Object.entries({ crt: CA, key: KEY, pem: Buffer.concat([CA, KEY]) }))
    writeFileSync(join(folder, `gatehouse.${name}`), data);
  const file = join(folder, rendering.file);
  writeFileSync(file, text);
  const serves = () =>
    new Promise<boolean>((answer) => {
      const socket = connect(Number(a), "127.0.0.1");
      socket.on("connect", () => socket.destroy() && answer(true)).on("error", () => answer(false));
    });
  const daemon = await startDaemon(...rendering.command(file, folder), serves, {
    XDG_DATA_HOME: folder,
    HOME: folder,
  });
  return {
    /** REST with TLS, and gRPC with TLS. */
    url: `https://localhost:${a}`,
    grpcUrl: `https://localhost:${b}`,
    /** Of nginx only: both without TLS, with client addresses in X-Forwarded-For. */
    plainUrl: `http://${ports.plain}`,
    plainGrpcUrl: `http://${ports.plainGrpc}`,
    async close() {
      daemon.kill("SIGTERM");
      await daemon.close();
    },
  };
}
