/**
 * The attacker of bench/attacks.ts, in a process of its own: attacks both ports as one address or
 * one user, as fast as the attack is described and no faster, until its time is over. Prints the
 * statuses that it got, in the terms of HTTP.
 */
import { Agent, request } from "node:http";
import http2 from "node:http2";
import { connect } from "node:net";
import { gzipSync } from "node:zlib";
import { create, toBinary } from "@bufbuild/protobuf";
import { LoginRequestSchema } from "../gen/gatehouse/account/v1/auth_service_pb.ts";
import { StreamChatRequestSchema } from "../gen/gatehouse/ai/v1/ai_service_pb.ts";
import {
  bomb,
  CHAT,
  elements,
  framed,
  GZIP,
  head,
  LOGIN,
  questions,
  REFLECTION,
} from "../test/support/grpc.ts";

const [kind = "", url = "", grpcUrl = "", ms = "", token = ""] = process.argv.slice(2);
/** Attacks that come through the trusted proxy name their addresses themselves. */
const isProxied = kind.startsWith("M8") || kind.startsWith("M12");
const localAddress = isProxied ? "127.0.0.1" : "127.0.9.9";
const { hostname, port } = new URL(url);
const agent = new Agent({ keepAlive: true, localAddress, maxSockets: 150 });
const authorization = `Bearer ${token}`;
const JSON_TYPE = { "content-type": "application/json" };
/**
 * Of gRPC: OK, INVALID_ARGUMENT, DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED, OUT_OF_RANGE,
 * UNIMPLEMENTED, UNAVAILABLE, UNAUTHENTICATED.
 */
const HTTP_STATUS: Record<string, number> = {
  0: 200,
  3: 400,
  4: 408,
  8: 429,
  11: 413,
  12: 501,
  14: 503,
  16: 401,
};
/** Requests that are open at once, at most. */
const MAX_OPEN = 300;

const large = Buffer.from(JSON.stringify({ provider: "provider-a", pad: "x".repeat(2_000_000) }));
const members = Buffer.from(
  `{${Array.from({ length: 130_000 }, (_, i) => `"\\u006b${i}":1`).join()}}`,
);
const list = Buffer.from(`{"messages":[${"{},".repeat(600_000)}{}]}`);
const message = { role: "user", content: "stay open" };

const statuses = new Map<string, number>();
const count = (status: number | string) =>
  statuses.set(`${status}`, (statuses.get(`${status}`) ?? 0) + 1);
let open = 0;
const begin = () => {
  let isOpen = true;
  open++;
  return () => {
    if (isOpen) open--;
    isOpen = false;
  };
};

function rest(path: string, body?: Uint8Array | string, headers = {}, isRead = true): void {
  const end = begin();
  const method = body === undefined ? "GET" : "POST";
  const sending = request(
    {
      host: hostname,
      port,
      localAddress,
      agent: isRead ? agent : false,
      method,
      path,
      headers: { ...JSON_TYPE, ...headers },
    },
    (response) => {
      count(response.statusCode ?? 0);
      if (isRead) response.resume().on("close", end);
    },
  );
  sending.on("error", end).on("close", end).end(body);
}

const sessions: http2.ClientHttp2Session[] = [];
/** A connection of `n`, opened again if it is closed. */
function session(n = 0): http2.ClientHttp2Session {
  const present = sessions[n];
  if (present && !present.destroyed && !present.closed) return present;
  const createConnection = () =>
    connect({ port: Number(new URL(grpcUrl).port), host: hostname, localAddress });
  const opened = http2.connect(grpcUrl, { createConnection, maxSessionMemory: 200 });
  opened.on("error", () => {});
  sessions[n] = opened;
  return opened;
}

/**
 * Opens a call.
 * @param isRead whether its response is read
 */
function call(path: string, headers = {}, n = 0, isRead = true): http2.ClientHttp2Stream {
  const end = begin();
  const stream = session(n).request(head(path, headers));
  const seen = (found: http2.IncomingHttpHeaders) => {
    const status =
      found["grpc-status"] ?? (Number(found[":status"]) === 200 ? undefined : found[":status"]);
    if (status !== undefined) count(HTTP_STATUS[String(status)] ?? String(status));
  };
  stream
    .on("response", seen)
    .on("trailers", seen)
    .on("error", () => {})
    .on("close", end);
  return isRead ? stream.resume() : stream;
}

const grpc = (path: string, body: Uint8Array, headers = {}, n = 0, isRead = true) =>
  void call(path, headers, n, isRead).end(body);

/** Does something so many times a second, unless too much is open. */
function atRate(perSecond: number, act: (i: number) => void, maxOpen = MAX_OPEN): void {
  const startedAt = performance.now();
  let done = 0;
  setInterval(() => {
    for (; done < ((performance.now() - startedAt) / 1000) * perSecond; done++)
      if (open < maxOpen) act(done);
  }, 10);
}

const CHUNK = 16 * 1024;
/**
 * Sends bodies over `connections` of each port, with so many bytes a second in all. They begin
 * again once refused.
 */
function pacedBodies(
  connections: number,
  bytesPerSecond: number,
  headers: Record<string, string>,
): void {
  const lines = Object.entries({ host: hostname, ...JSON_TYPE, ...headers }).map(
    ([name, value]) => `${name}: ${value}\r\n`,
  );
  const start = `POST /ai/chat HTTP/1.1\r\n${lines.join("")}content-length: ${members.length}\r\n\r\n`;
  type Body = { write(part: Uint8Array | string): void; sent: number; isOver: boolean };
  const openRest = (): Body => {
    const socket = connect({ port: Number(port), host: hostname, localAddress });
    const body: Body = { write: (part) => socket.write(part), sent: 0, isOver: false };
    socket.on("data", (part) =>
      count(/^HTTP\/1.1 (\d+)/.exec(part.toString("latin1"))?.[1] ?? "?"),
    );
    socket
      .on("error", () => {})
      .on("close", () => {
        body.isOver = true;
      });
    socket.write(start);
    return body;
  };
  const openGrpc = (n: number): Body => {
    const stream = call(CHAT, { ...JSON_TYPE, ...headers }, n);
    const body: Body = {
      write: (part) => stream.writable && stream.write(part),
      sent: 0,
      isOver: false,
    };
    stream.on("close", () => {
      body.isOver = true;
    });
    return body;
  };
  const bodies: Body[] = [];
  atRate(bytesPerSecond / CHUNK, (i) => {
    const n = i % (2 * connections);
    const opened = bodies[n];
    const body =
      !opened || opened.isOver || opened.sent >= members.length
        ? n % 2
          ? openGrpc(n)
          : openRest()
        : opened;
    bodies[n] = body;
    body.write(members.subarray(body.sent, body.sent + CHUNK));
    body.sent += CHUNK;
  });
}

const credentials = (i: number | string) => ({
  email: `victim${i}@example.com`,
  password: "Wrong-horse-1",
});
/** So many logins a second, in turns over both ports. */
function logins(
  perSecond: number,
  headersOf: (i: number) => Record<string, string>,
  account: (i: number) => number | string,
) {
  atRate(perSecond, (i) => {
    const wrong = credentials(account(i));
    if (i % 2) rest("/auth/login", JSON.stringify(wrong), headersOf(i));
    else
      grpc(
        LOGIN,
        framed(toBinary(LoginRequestSchema, create(LoginRequestSchema, wrong))),
        headersOf(i),
      );
  });
}

/**
 * Headers and one byte, 900 for each of 9 connections; REST: 800 connections. What is refused comes
 * again.
 */
function stalled(): void {
  const lines = `POST /auth/login HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{`;
  let sockets = 0;
  atRate(
    1_000,
    (i) => {
      if (i % 4) return void call(LOGIN, {}, i % 9).write("\0");
      if (sockets >= 800) return;
      sockets++;
      const socket = connect({ port: Number(port), host: hostname, localAddress }, () =>
        socket.write(lines),
      );
      socket.on("data", (part) =>
        count(/^HTTP\/1.1 (\d+)/.exec(part.toString("latin1"))?.[1] ?? "?"),
      );
      socket.on("error", () => {}).on("close", () => sockets--);
    },
    9 * 900,
  );
}

const proxied = (address: string) => ({ "x-forwarded-for": address });

const attacks: Record<string, () => void> = {
  "C1 gzip bombs without a token": () =>
    atRate(80, (i) => {
      if (i % 2) grpc(CHAT, bomb, GZIP);
      else rest("/ai/chat", gzipSync(large), { "content-encoding": "gzip" });
    }),
  "C1 long lists of one user": () => {
    atRate(16, () => grpc(CHAT, bomb, { ...GZIP, authorization }));
    atRate(1, (i) =>
      i % 2
        ? grpc(CHAT, framed(elements), { authorization })
        : rest("/ai/chat", list, { authorization }),
    );
  },
  "H1 headers and one byte": stalled,
  "H1 health watches": () => {
    atRate(
      500,
      (i) => grpc("/grpc.health.v1.Health/Watch", framed(new Uint8Array()), {}, i % 20),
      5_000,
    );
    atRate(100, () => rest("/health/ready"), 5_000);
  },
  "H1 streams and unread exports of one user": () => {
    const request = { provider: "provider-a", messages: [message] };
    const streamed = framed(
      toBinary(StreamChatRequestSchema, create(StreamChatRequestSchema, request)),
    );
    atRate(10, () => rest("/ai/stream", JSON.stringify(request), { authorization }, false));
    atRate(10, () => grpc("/gatehouse.ai.v1.AIService/StreamChat", streamed, { authorization }, 1));
    atRate(10, () => rest("/user/export", undefined, { authorization }, false));
    atRate(10, () =>
      grpc(
        "/gatehouse.account.v1.UserService/ExportData",
        framed(new Uint8Array()),
        { authorization },
        2,
        false,
      ),
    );
  },
  "H2 reflection and documents with brotli": () => {
    atRate(2, (i) =>
      grpc(REFLECTION, questions(100), { "grpc-accept-encoding": "br,gzip" }, i % 4),
    );
    atRate(20, () => rest("/openapi.json", undefined, { "accept-encoding": "br, gzip" }));
  },
  "H3 1.5 MB/s of bodies without a token": () => pacedBodies(12, 1_500_000, {}),
  "H3 1.5 MB/s of bodies of one user": () => pacedBodies(12, 1_500_000, { authorization }),
  "M1 405 logins a second": () =>
    logins(
      405,
      () => ({}),
      () => "M1",
    ),
  "M8 405 logins a second from a /48": () => {
    logins(
      405,
      (i) => proxied(`2001:db8:7:${(i % 65_536).toString(16)}::1`),
      (i) => i,
    );
  },
  "M12 405 logins a second through a proxy": () => {
    logins(
      405,
      () => proxied("198.51.100.7"),
      (i) => i % 200,
    );
  },
};

attacks[kind]?.();
setTimeout(() => {
  process.stdout.write(JSON.stringify(Object.fromEntries(statuses)), () => process.exit(0));
}, Number(ms));
