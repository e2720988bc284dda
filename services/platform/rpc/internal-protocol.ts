import type { Code } from "@connectrpc/connect";
import type { Failure } from "../../../gen/gatehouse/platform/v1/failure_pb.ts";

/**
 * How a gateway and services in other processes speak over HTTP/1.1. A request is one bare message.
 * A response is a sequence of envelopes: kind, length of the content, content. Its status is 200 if
 * the call has started.
 */
export const HEAD_BYTES = 5;
/** Kind of an envelope that contains a message. */
export const MESSAGE = 0;
/** Kind of the last envelope, which contains an `End` as JSON. */
export const END = 1;
/** Kind of an empty envelope that shows that the services are alive. */
export const ALIVE = 2;
/**
 * The error of a call, if it failed, with its metadata as `trailer`. Failures are the only details
 * that it has.
 */
export type End = {
  trailer: [string, string][];
  error?: { code: Code; message: string; failures: Failure[] };
};

/**
 * Parses the address of an internal listener: `unix:/path`, `tcp://host:port` or `tls://host:port`.
 */
export function readInternalUrl(url: string) {
  const { protocol, hostname, port, pathname } = new URL(url);
  if (protocol === "unix:") return { isTls: false, at: { path: pathname } };
  return {
    isTls: protocol === "tls:",
    at: { host: hostname.replace(/^\[|\]$/g, ""), port: Number(port) },
  };
}
