import http, { type IncomingMessage } from "node:http";
import https from "node:https";
import {
  create,
  type DescMessage,
  type DescMethod,
  fromBinary,
  type MessageInitShape,
  toBinary,
} from "@bufbuild/protobuf";
import { Code, ConnectError, type ContextValues, type Transport } from "@connectrpc/connect";
import { FailureSchema } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { readTlsFiles, type TlsFiles } from "../../services/platform/process/tls-files.ts";
import * as protocol from "../../services/platform/rpc/internal-protocol.ts";
import { SECRET } from "../../services/platform/rpc/metadata.ts";
import { writeUnread } from "../../services/platform/rpc/unread.ts";

/**
 * Silence after which the services are considered dead, in ms. For each call, they send a sign of
 * life every five seconds.
 */
const SILENCE_MS = 15_000;

/** A transport to services in another process. `close` also ends open calls. */
export type ServicesTransport = Transport & { close(): void };

/**
 * A transport to the internal listener of services in another process. Each open call has its own
 * HTTP/1.1 connection, so that calls do not delay each other. Calls have no deadline; use the
 * signal.
 * @param url see `readInternalUrl`
 * @throws Error for operators if a file can't be read
 */
export function createInternalTransport(
  url: string,
  secret: string,
  { silenceMs = SILENCE_MS, ...files }: TlsFiles & { silenceMs?: number } = {},
): ServicesTransport {
  const { isTls, at } = protocol.readInternalUrl(url);
  const { Agent, request: open } = isTls ? https : http;
  const agent = new Agent({
    keepAlive: true,
    timeout: silenceMs,
    ...(isTls && readTlsFiles(files)),
  });
  const target = { ...("path" in at ? { socketPath: at.path } : at), agent, method: "POST" };

  /**
   * Starts a call. Its messages are read from the response as they are consumed.
   * @throws ConnectError
   */
  async function start<I extends DescMessage, O extends DescMessage>(
    method: DescMethod & { input: I; output: O },
    signal: AbortSignal | undefined,
    metadata: ConstructorParameters<typeof Headers>[0],
    input: MessageInitShape<I>,
    values: ContextValues | undefined,
  ) {
    const body = toBinary(method.input, create(method.input, input));
    const own = { [SECRET]: secret, "content-length": body.length };
    const header = new Headers(metadata);
    writeUnread(header, values);
    const headers = { ...Object.fromEntries(header), ...own };
    const path = `/${method.parent.typeName}/${method.name}`;
    const request = open({ ...target, path, headers, ...(signal && { signal }) }).end(body);
    let response: IncomingMessage | undefined;
    const onSilence = () => {
      // Data that has arrived may be waiting for a slow reader.
      if (response?.readableLength) request.socket?.setTimeout(silenceMs);
      else
        (response ?? request).destroy(
          new ConnectError("The services do not respond.", Code.Unavailable),
        );
    };
    request.once("socket", (socket) => socket.on("timeout", onSilence));
    request.once("close", () => request.socket?.off("timeout", onSilence));
    response = await new Promise<IncomingMessage>((resolve, reject) => {
      request.once("response", resolve).on("error", (error) => reject(errorOf(error, signal)));
    });
    const message = messagesOf(method.output, response, signal);
    if (response.statusCode !== 200) await message.next(); // throws the error of the call
    return {
      service: method.parent,
      method,
      header: new Headers(response.headers as Record<string, string>),
      message,
      trailer: new Headers(),
    };
  }

  return {
    async unary(method, signal, _timeoutMs, header, input, values) {
      const started = await start(method, signal, header, input, values);
      let message = create(method.output);
      for await (const only of started.message) message = only; // read to the end, so that the connection can be reused
      return { ...started, stream: false, method, message };
    },
    async stream(method, signal, _timeoutMs, header, input, values) {
      const { value } = await input[Symbol.asyncIterator]().next(); // server streaming: the request is one message
      return { ...(await start(method, signal, header, value, values)), stream: true, method };
    },
    close: () => agent.destroy(),
  };
}

/**
 * The messages of a response.
 * @throws ConnectError
 */
async function* messagesOf<O extends DescMessage>(
  output: O,
  response: IncomingMessage,
  signal?: AbortSignal,
) {
  let end: protocol.End | undefined;
  try {
    for await (const { kind, content } of envelopesOf(response)) {
      if (kind === protocol.MESSAGE) yield fromBinary(output, content);
      if (kind === protocol.END) end = JSON.parse(content.toString());
      signal?.throwIfAborted();
    }
  } catch (error) {
    throw errorOf(error, signal);
  }
  if (!end) throw new ConnectError("The response ended prematurely.", Code.Unavailable);
  const details = end.error?.failures.map((value) => ({ desc: FailureSchema, value }));
  if (end.error) throw new ConnectError(end.error.message, end.error.code, end.trailer, details);
}

/** The complete envelopes of a response, in order. */
async function* envelopesOf(response: IncomingMessage) {
  let rest: Buffer = Buffer.alloc(0);
  for await (const part of response) {
    rest = rest.length === 0 ? part : Buffer.concat([rest, part]);
    while (rest.length >= protocol.HEAD_BYTES) {
      const size = protocol.HEAD_BYTES + rest.readUInt32BE(1);
      if (rest.length < size) break;
      yield { kind: rest[0], content: rest.subarray(protocol.HEAD_BYTES, size) };
      rest = rest.subarray(size);
    }
  }
}

/**
 * The error of a call that failed without an error from the services: it was aborted, or its
 * connection was lost.
 */
function errorOf(error: unknown, signal: AbortSignal | undefined): ConnectError {
  return signal?.aborted
    ? ConnectError.from(signal.reason, Code.Canceled)
    : ConnectError.from(error, Code.Unavailable);
}
