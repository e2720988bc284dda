import http, { type IncomingMessage } from "node:http";
import https from "node:https";
import { create, type DescMessage, type DescMethod, fromBinary, toBinary } from "@bufbuild/protobuf";
import { Code, ConnectError, type Transport } from "@connectrpc/connect";
import { FailureSchema } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { SECRET } from "../../services/platform/client.ts";
import * as protocol from "../../services/platform/internal-protocol.ts";
import { readTlsFiles, type TlsFiles } from "../../services/platform/process.ts";

/** Silence after which the services count as dead, in ms. Theirs show that a call is alive every five seconds. */
const SILENCE_MS = 15_000;

/** A transport to services in another process. `close` ends open calls too. */
export type ServicesTransport = Transport & { close(): void };
/** The options of a call, as a transport receives them: signal, deadline in ms, headers. */
type CallOptions = [AbortSignal | undefined, number | undefined, ConstructorParameters<typeof Headers>[0]];

/**
 * A transport to the internal listener of services in another process. Each open call has an HTTP/1.1 connection of its own,
 * so that calls do not delay each other.
 * @param url see `readInternalUrl`
 * @throws Error for operators, if a file can't be read
 */
export function createInternalTransport(
  url: string,
  secret: string,
  { silenceMs = SILENCE_MS, ...files }: TlsFiles & { silenceMs?: number } = {},
): ServicesTransport {
  const { isTls, at } = protocol.readInternalUrl(url);
  const { Agent, request: open } = isTls ? https : http;
  const agent = new Agent({ keepAlive: true, timeout: silenceMs, ...(isTls && readTlsFiles(files)) });
  const target = { ...("path" in at ? { socketPath: at.path } : at), agent, method: "POST" };

  /** Starts a call. Its messages are read from the response as they are consumed. @throws ConnectError */
  async function start<O extends DescMessage>(method: DescMethod & { output: O }, body: Uint8Array, call: CallOptions) {
    const [signal, timeoutMs, metadata] = call;
    const own = { [SECRET]: secret, [protocol.TIMEOUT_HEADER]: timeoutMs ?? "", "content-length": body.length };
    const headers = { ...Object.fromEntries(new Headers(metadata)), ...own };
    const request = open({ ...target, path: `/${method.parent.typeName}/${method.name}`, headers }).end(body);
    let response: IncomingMessage | undefined;
    const end = (message: string, code: Code) => (response ?? request).destroy(new ConnectError(message, code));
    const onAbort = () => (response ?? request).destroy(ConnectError.from(signal?.reason, Code.Canceled));
    const onDeadline = () => end("The deadline has passed.", Code.DeadlineExceeded);
    const onSilence = () => {
      // What has arrived may wait for a slow reader.
      if (response?.readableLength) request.socket?.setTimeout(silenceMs);
      else end("The services do not respond.", Code.Unavailable);
    };
    const timer = timeoutMs === undefined ? undefined : setTimeout(onDeadline, timeoutMs);
    signal?.addEventListener("abort", onAbort);
    if (signal?.aborted) onAbort();
    request.once("socket", (socket) => socket.on("timeout", onSilence));
    request.once("close", () => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", onAbort);
      request.socket?.off("timeout", onSilence);
    });
    response = await new Promise<IncomingMessage>((resolve, reject) => {
      request.once("response", resolve).on("error", (error) => reject(ConnectError.from(error, Code.Unavailable)));
    });
    const trailer = new Headers();
    const message = messagesOf(method.output, response, trailer);
    if (response.statusCode !== 200) await message.next(); // throws the error of the call
    const header = new Headers(response.headers as Record<string, string>);
    return { service: method.parent, method, header, message, trailer };
  }

  return {
    async unary(method, signal, timeoutMs, header, input) {
      const body = toBinary(method.input, create(method.input, input));
      const started = await start(method, body, [signal, timeoutMs, header]);
      let message = create(method.output);
      for await (const only of started.message) message = only; // up to the end: the connection is used again
      return { ...started, stream: false, method, message };
    },
    async stream(method, signal, timeoutMs, header, input) {
      const { value } = await input[Symbol.asyncIterator]().next(); // server streaming: the request is one message
      const body = toBinary(method.input, create(method.input, value));
      return { ...(await start(method, body, [signal, timeoutMs, header])), stream: true, method };
    },
    close: () => agent.destroy(),
  };
}

/** The messages of a response. Fills `trailer` at its end. @throws ConnectError */
async function* messagesOf<O extends DescMessage>(output: O, response: IncomingMessage, trailer: Headers) {
  let rest: Buffer = Buffer.alloc(0);
  let end: protocol.End | undefined;
  try {
    for await (const part of response) {
      rest = rest.length === 0 ? part : Buffer.concat([rest, part]);
      while (rest.length >= protocol.HEAD_BYTES) {
        const size = protocol.HEAD_BYTES + rest.readUInt32BE(1);
        if (rest.length < size) break;
        const [kind, content] = [rest[0], rest.subarray(protocol.HEAD_BYTES, size)];
        rest = rest.subarray(size);
        if (kind === protocol.MESSAGE) yield fromBinary(output, content);
        if (kind === protocol.END) end = JSON.parse(content.toString());
        if (response.errored) throw response.errored; // the call was aborted meanwhile
      }
    }
    if (!end) throw new ConnectError("The response broke off.", Code.Unavailable);
    for (const [name, value] of end.trailer) trailer.append(name, value);
    const details = end.error?.failures.map((value) => ({ desc: FailureSchema, value }));
    if (end.error) throw new ConnectError(end.error.message, end.error.code, trailer, details);
  } catch (error) {
    throw ConnectError.from(error, Code.Unavailable);
  }
}
