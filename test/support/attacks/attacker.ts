/**
 * The attacker of `test/resilience/exhaustion.test.ts`, in a separate process: it repeats one
 * action from one address of 127.0.0.0/8 for some time, as often as the server accepts it. Prints
 * how many connections it has opened.
 */
import { connect, type NetConnectOpts, type Socket } from "node:net";
import { CHAT, LOGIN, PROFILE, REFLECTION, STREAM } from "../grpc.ts";
import type { Attack, AttackName } from "./attack.ts";
import {
  halfRequest,
  headerBlock,
  moreBody,
  opening,
  resetRequest,
  wholeRequest,
} from "./raw-http2.ts";
import { unknownKeyToken } from "./unknown-key.ts";

const attack = JSON.parse(process.argv[2] ?? "") as Attack;
/** More than the share of one address. */
const MAX_CONNECTIONS = 600;
/** Connections that are opened in one step, every `STEP_MS`. */
const CONNECTIONS_PER_STEP = 20;
const STEP_MS = 20;
/** Streams that a step begins on an open connection, and how often it does. */
const STREAMS_PER_WRITE = 250;
const REPEAT_MS = 500;

const GRPC_PATHS = [
  LOGIN,
  CHAT,
  STREAM,
  PROFILE,
  REFLECTION,
  "/grpc.health.v1.Health/Check",
  "/grpc.health.v1.Health/Watch",
  "/gatehouse.account.v1.AuthService/Nothing",
  "/nothing",
];
const FILES = ["/", "/openapi.json", "/docs", "/docs/scalar.js", "/health/live", "/nothing"];
const ROUTES = [
  "POST /auth/login",
  "POST /ai/chat",
  "POST /ai/stream",
  "PUT /user/profile",
  "DELETE /user/sessions",
  "GET /user/profile",
  "GET /health/ready",
  "GET /openapi.json",
  "GET /docs/scalar.js",
  "OPTIONS /auth/login",
  "PATCH /nothing",
];

type Target = "rest" | "grpc" | "internal";
const targetOf: Record<Target, NetConnectOpts> = {
  rest: { host: "127.0.0.1", port: attack.ports.rest },
  grpc: { host: "127.0.0.1", port: attack.ports.grpc },
  internal: { host: "127.0.0.1", port: attack.ports.internal },
};
const authorization = attack.token && { authorization: `Bearer ${attack.token}` };

let opened = 0;
let turns = 0;
const inTurn = <T>(items: readonly T[]) => items[turns++ % items.length] as T;
const open = new Set<Socket>();

/** Keeps connections open: those that the server closes are opened again. */
function keepOpen(target: Target, begin: (socket: Socket) => void, again?: typeof begin): void {
  const add = () => {
    const socket = connect({ ...targetOf[target], localAddress: attack.address });
    open.add(socket);
    opened++;
    const repeat = again && setInterval(() => socket.writable && again(socket), REPEAT_MS);
    socket.on("error", () => {}).on("connect", () => begin(socket));
    socket.on("close", () => {
      clearInterval(repeat);
      open.delete(socket);
    });
    return socket;
  };
  setInterval(() => {
    for (let i = 0; i < CONNECTIONS_PER_STEP && open.size < MAX_CONNECTIONS; i++) add();
  }, STEP_MS);
}

const grpcBlock = (path: string, more: object = {}) =>
  headerBlock({
    ":method": "POST",
    ":scheme": "http",
    ":path": path,
    ":authority": "localhost",
    "content-type": "application/grpc",
    ...authorization,
    ...more,
  });

/** Writes so many calls to a connection. */
function keepCalling(write: (streamId: number, block: Buffer) => Buffer, more?: () => object) {
  const nextIds = new WeakMap<Socket, number>();
  const call = (socket: Socket) => {
    let id = nextIds.get(socket) ?? 1;
    const parts: Buffer[] = [];
    for (let i = 0; i < STREAMS_PER_WRITE; i++, id += 2)
      parts.push(write(id, grpcBlock(inTurn(GRPC_PATHS), more?.())));
    nextIds.set(socket, id);
    socket.write(Buffer.concat(parts));
  };
  const begin = (socket: Socket) => {
    socket.resume().write(opening());
    call(socket);
  };
  keepOpen("grpc", begin, call);
}

/** The head of a REST request. */
function restHead(line: string, more: Record<string, string> = {}): string {
  const headers = { host: "localhost", "content-type": "application/json", ...authorization };
  const lines = Object.entries({ ...headers, ...more }).map(([name, value]) => `${name}: ${value}`);
  return `${line} HTTP/1.1\r\n${lines.join("\r\n")}\r\n\r\n`;
}

const dripOn = (socket: Socket) => void socket.write(" ");

const attacks: Record<AttackName, () => void> = {
  "no attack": () => {},
  "half-open gRPC calls": () => keepCalling(halfRequest),
  "gRPC calls that are reset": () => keepCalling(resetRequest),
  "gRPC calls whose bodies drip": () => {
    const first = new WeakSet<Socket>();
    const block = grpcBlock(CHAT);
    const ids = Array.from({ length: STREAMS_PER_WRITE }, (_, i) => 2 * i + 1);
    const begin = (socket: Socket) => {
      first.add(socket);
      socket.resume();
      socket.write(Buffer.concat([opening(), ...ids.map((id) => halfRequest(id, block))]));
    };
    keepOpen("grpc", begin, (socket) => socket.write(Buffer.concat(ids.map((id) => moreBody(id)))));
  },
  "gRPC tokens of unknown keys": () =>
    keepCalling(wholeRequest, () => ({ authorization: `Bearer ${unknownKeyToken()}` })),
  "pipelined requests that are not read": () =>
    keepOpen("rest", (socket) => {
      const requests = Array.from({ length: 1_000 }, () => restHead(`GET ${inTurn(FILES)}`));
      socket.pause().write(requests.join(""));
    }),
  "half-open REST requests": () =>
    keepOpen("rest", (socket) => {
      socket.resume().write(`${restHead(inTurn(ROUTES), { "content-length": "10000" })}{`);
    }),
  "REST bodies that drip": () =>
    keepOpen(
      "rest",
      (socket) => {
        socket.resume().write(`${restHead("POST /ai/chat", { "content-length": "90000" })}{`);
      },
      dripOn,
    ),
  "half-sent headers": () =>
    keepOpen(
      "rest",
      (socket) => void socket.write("GET /health HTTP/1.1\r\nhost: x\r\nx-s:"),
      dripOn,
    ),
  "REST tokens of unknown keys": () => {
    const ask = (socket: Socket) => {
      const heads = Array.from({ length: 16 }, () =>
        restHead("GET /user/profile", { authorization: `Bearer ${unknownKeyToken()}` }),
      );
      socket.write(heads.join(""));
    };
    keepOpen("rest", (socket) => ask(socket.resume()), ask);
  },
  "connections of the internal listener": () =>
    keepOpen("internal", (socket) => {
      const beginnings = [
        "",
        "POST /gatehouse",
        restHead(`POST ${LOGIN}`, { "content-length": "100" }),
        restHead(`POST ${LOGIN}`).repeat(500),
      ];
      socket.pause().write(inTurn(beginnings));
    }),
};

attacks[attack.name]();
setTimeout(() => {
  process.stdout.write(`${opened}`, () => process.exit(0));
}, attack.ms);
