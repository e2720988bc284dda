import { randomUUID, timingSafeEqual } from "node:crypto";

/** Metadata between the gateway and the services. Those about the client are believed only along with the secret. */
export const SECRET = "x-gatehouse-secret";
const CLIENT_ADDRESS = "x-gatehouse-client-address";
const CLIENT_AGENT = "x-gatehouse-client-agent";
/** Response header of a health check: how long the dependency took, in ms. */
export const LATENCY_MS = "x-gatehouse-latency-ms";
/** Response header of a success that leaves the client's cookies as they are. */
export const KEEPS_COOKIES = "x-gatehouse-keeps-cookies";

/** Longest User-Agent that is kept, in characters. */
const MAX_AGENT_LENGTH = 400;

/** Who sent a request. */
export type Client = {
  /** IP address. */
  address: string;
  /** User-Agent, at most 400 characters; empty if none was sent. */
  agent: string;
};

/** The request id that the caller sent if it is well-formed, else a new one. */
export function requestIdOf(sent: unknown): string {
  return typeof sent === "string" && /^[\w.-]{1,128}$/.test(sent) ? sent : randomUUID();
}

/** Whether the secret that a call carries is the gateway's. */
export function isGatewaySecret(sent: unknown, secret: string | undefined): boolean {
  return secret !== undefined && typeof sent === "string" && equalSecrets(sent, secret);
}

/** Writes the client of a request into the metadata of its call. */
export function writeClient(header: Headers, { address, agent }: Client, secret: string | undefined): void {
  header.set(CLIENT_ADDRESS, address);
  if (agent) header.set(CLIENT_AGENT, encodeURIComponent(agent.slice(0, MAX_AGENT_LENGTH)));
  if (secret !== undefined) header.set(SECRET, secret);
}

/**
 * Reads the client of a call.
 * @param peer the address of the socket's other end, which is the client if the call did not come from a gateway
 */
export function readClient(header: Headers, peer: string, secret: string | undefined): Client {
  const sent = header.get(SECRET);
  if (isGatewaySecret(sent, secret)) {
    const agent = decode(header.get(CLIENT_AGENT) ?? "").slice(0, MAX_AGENT_LENGTH);
    return { address: header.get(CLIENT_ADDRESS) ?? peer, agent };
  }
  return { address: peer, agent: (header.get("user-agent") ?? "").slice(0, MAX_AGENT_LENGTH) };
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Compares two secrets in a time that depends on their lengths alone. */
export function equalSecrets(a: string, b: string): boolean {
  const [left, right] = [Buffer.from(a), Buffer.from(b)];
  return left.length === right.length && timingSafeEqual(left, right);
}
