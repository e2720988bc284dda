import http, { type IncomingMessage } from "node:http";
import https from "node:https";
import { create, type DescMessage, type DescMethod, fromBinary, toBinary } from "@bufbuild/protobuf";
import { Code, ConnectError, type Transport } from "@connectrpc/connect";
import { SECRET } from "../../services/platform/client.ts";
import { ResponseReader, readInternalUrl, TIMEOUT_HEADER } from "../../services/platform/internal-protocol.ts";
import { readTlsFiles, type TlsFiles } from "../../services/platform/process.ts";

/** Maximum message from the services, in bytes: more than the largest reply of a provider. */
export const MAX_MESSAGE_BYTES = 17 * 1024 * 1024;
/** Silence after which the services count as dead, in ms. Theirs show that a call is alive every five seconds. */
const SILENCE_MS = 15_000;
const NEVER = new AbortController().signal;

/** A transport to services in another process. */
export type ServicesTransport = Transport & {
  /** Closes every connection, open calls included. */
  close(): void;
};

/**
 * A transport to the internal listener of services in another process. Each open call has an HTTP/1.1 connection of its own,
 * so that calls do not delay each other. https://connectrpc.com/docs/protocol
 * @param url see `readInternalUrl`
 * @param secret the secret of the gateways
 * @param silenceMs silence after which the services count as dead
 * @throws Error for operators, if a file can't be read
 */
export function createInternalTransport(
  url: string,
  secret: string,
  files: TlsFiles = {},
  silenceMs = SILENCE_MS,
): ServicesTransport {
  const { isTls, at } = readInternalUrl(url);
  const options = { keepAlive: true, timeout: silenceMs };
  const agent = isTls ? new https.Agent({ ...options, ...readTlsFiles(files) }) : new http.Agent(options);
  const target = { ...("path" in at ? { socketPath: at.path } : at), agent, method: "POST" };

  /** Sends a call. @returns the response once its headers have arrived */
  function send(path: string, { signal, header }: CallOptions, body: Uint8Array): Promise<IncomingMessage> {
    const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
    let received: IncomingMessage | undefined;
    const headers = { ...Object.fromEntries(header), [SECRET]: secret, "content-length": body.length };
    const request = (isTls ? https : http).request({ ...target, path, headers });
    const abort = () => request.destroy();
    const onSilence = () => received?.readableLength || abort(); // what has arrived may wait for a slow reader
    signal.addEventListener("abort", abort);
    request.once("socket", (socket) => {
      socket.on("timeout", onSilence);
      request.once("close", () => socket.off("timeout", onSilence));
    });
    request.once("close", () => signal.removeEventListener("abort", abort));
    request.once("error", reject).once("response", (response) => {
      received = response;
      resolve(response);
    });
    request.end(body);
    return promise;
  }

  /** Starts a call. Its messages are read from the response as they are consumed. */
  async function start<O extends DescMessage>(
    method: DescMethod & { output: O },
    options: CallOptions,
    body: Uint8Array,
  ) {
    const { signal } = options;
    try {
      signal.throwIfAborted();
      const response = await send(`/${method.parent.typeName}/${method.name}`, options, body);
      const reader = new ResponseReader(MAX_MESSAGE_BYTES);
      const message = messagesOf(method.output, response, reader, signal);
      if (response.statusCode !== 200) await message.next(); // throws the error of the call
      const header = new Headers(response.headers as Record<string, string>);
      return { service: method.parent, method, header, message, trailer: reader.trailer };
    } catch (error) {
      throw toConnectError(error, signal);
    }
  }

  return {
    async unary(method, signal, timeoutMs, headers, input) {
      const body = toBinary(method.input, create(method.input, input));
      const started = await start(method, optionsOf(signal, timeoutMs, headers), body);
      let message = create(method.output);
      for await (const only of started.message) message = only; // up to the end: the connection is used again
      return { ...started, stream: false, method, message };
    },
    async stream(method, signal, timeoutMs, headers, input) {
      const { value } = await input[Symbol.asyncIterator]().next(); // server streaming: the request is one message
      const body = toBinary(method.input, create(method.input, value));
      return { ...(await start(method, optionsOf(signal, timeoutMs, headers), body)), stream: true, method };
    },
    close: () => agent.destroy(),
  };
}

/** The messages of a response. */
async function* messagesOf<O extends DescMessage>(
  output: O,
  response: IncomingMessage,
  reader: ResponseReader,
  signal: AbortSignal,
) {
  try {
    for await (const part of response) {
      for (const message of reader.read(part)) {
        signal.throwIfAborted();
        yield fromBinary(output, message);
      }
    }
    reader.assertSuccess();
  } catch (error) {
    throw toConnectError(error, signal);
  }
}

type CallOptions = { signal: AbortSignal; header: Headers };

/** The signal and the headers of a call with this deadline. */
function optionsOf(signal = NEVER, timeoutMs: number | undefined, headers: ConstructorParameters<typeof Headers>[0]) {
  const header = new Headers(headers);
  if (timeoutMs === undefined) return { signal, header };
  header.set(TIMEOUT_HEADER, String(timeoutMs));
  return { signal: AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]), header };
}

/** Why a call failed: the services' own error, its deadline, its client, or that the services are not available. */
function toConnectError(error: unknown, { aborted, reason }: AbortSignal): ConnectError {
  if (aborted && (reason as Error).name === "TimeoutError") {
    return new ConnectError("The deadline has passed.", Code.DeadlineExceeded);
  }
  if (aborted) return ConnectError.from(reason, Code.Canceled);
  return error instanceof ConnectError ? error : ConnectError.from(error, Code.Unavailable);
}
