import type { Code } from "@connectrpc/connect";
import type { Failure } from "../../../gen/gatehouse/platform/v1/failure_pb.ts";

/**
 * Protocol between a gateway and services in other processes, over HTTP/1.1. A request is one bare
 * message. A response is a sequence of envelopes: kind, length of the content, content. Its status
 * is 200 if the call was started. `HEAD_BYTES` is the size of kind and length.
 */
export const HEAD_BYTES = 5;
/** Envelope kind: a message. */
export const MESSAGE = 0;
/** Envelope kind: the last one, with an `End` as JSON. */
export const END = 1;
/** Envelope kind: empty, to show that the services are alive. */
export const ALIVE = 2;
/**
 * End of a call: its trailer and, if it failed, the error, whose metadata is in the trailer. Its
 * details can only be failures.
 */
export type End = {
  trailer: [string, string][];
  error?: { code: Code; message: string; failures: Failure[] };
};

/**
 * Parses the URL of an internal listener: `unix:/path`, `tcp://host:port` or `tls://host:port`.
 */
export function readInternalUrl(url: string) {
  const { protocol, hostname, port, pathname } = new URL(url);
  if (protocol === "unix:") return { isTls: false, at: { path: pathname } };
  return {
    isTls: protocol === "tls:",
    at: { host: hostname.replace(/^\[|\]$/g, ""), port: Number(port) },
  };
}
