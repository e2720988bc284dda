import { readdirSync, readFileSync } from "node:fs";
import http2 from "node:http2";
import { getPriority } from "node:os";
import { gzipSync } from "node:zlib";
import { create, toBinary } from "@bufbuild/protobuf";
import { Code } from "@connectrpc/connect";
import { StreamChatRequestSchema } from "../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import { ServerReflectionRequestSchema } from "../../gen/grpc/reflection/v1/reflection_pb.ts";
import { conversationOf } from "./ai-calls.ts";
import { framed } from "./raw-grpc.ts";
import { times } from "./until.ts";

export const CHAT = "/gatehouse.ai.v1.AIService/Chat";
export const PROFILE = "/gatehouse.account.v1.UserService/GetProfile";
export const STREAM = "/gatehouse.ai.v1.AIService/StreamChat";
export const LOGIN = "/gatehouse.account.v1.AuthService/Login";
export const REFLECTION = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
export const GZIP = { "grpc-encoding": "gzip" };

/** A million empty elements of `messages`, and the same in 2 KB. */
export const elements = Buffer.alloc(2_000_000).fill(Buffer.from([0x12, 0]));
export const bomb = framed(gzipSync(elements), { flags: 1 });

const messageRequest = {
  case: "fileContainingSymbol",
  value: "gatehouse.ai.v1.AIService",
} as const;
const question = toBinary(
  ServerReflectionRequestSchema,
  create(ServerReflectionRequestSchema, { messageRequest }),
);
/** Requests about a service, for a reflection stream. */
export const questions = (count: number) => Buffer.concat(times(count, () => framed(question)));

/** The body of Chat or StreamChat: a conversation of one message. */
export const chatFrame = (content: string) =>
  framed(
    toBinary(StreamChatRequestSchema, create(StreamChatRequestSchema, conversationOf(content))),
  );

/** The address of the gRPC port in the output of a process. */
export const grpcUrlIn = (output: string) =>
  `http://${/(?:gRPC|Connect) on (127\.0\.0\.1:\d+)/.exec(output)?.[1]}`;

/** The headers of a gRPC call. */
export const head = (path: string, more = {}) => ({
  ":method": "POST",
  ":path": path,
  "content-type": "application/grpc",
  ...more,
});

/** Runs requests on a gRPC connection, and closes it. */
export async function withSession<T>(
  url: string,
  run: (session: http2.ClientHttp2Session) => Promise<T>,
): Promise<T> {
  const session = http2.connect(url, { maxSessionMemory: 200 }).on("error", () => {}); // in MB
  return run(session).finally(() => session.destroy());
}

const {
  Unauthenticated,
  InvalidArgument,
  OutOfRange,
  ResourceExhausted,
  Unavailable,
  FailedPrecondition,
} = Code;
const CODES = [
  0,
  InvalidArgument,
  Unauthenticated,
  OutOfRange,
  FailedPrecondition,
  ResourceExhausted,
  Unavailable,
];
/** The HTTP status that REST has for a status of gRPC. */
export const httpStatusOf = (code: number) =>
  [200, 400, 401, 413, 423, 429, 503][CODES.indexOf(code)] ?? code;

/** The threads of Node's pool that run at low priority. */
export function lowThreadsOf(pid: number): number {
  const folder = `/proc/${pid}/task`;
  const isLow = (thread: string) => {
    try {
      const name = readFileSync(`${folder}/${thread}/comm`, "utf8").trim();
      return name === "libuv-worker" && getPriority(Number(thread)) === 10;
    } catch {
      return false; // it has ended
    }
  };
  return readdirSync(folder).filter(isLow).length;
}
