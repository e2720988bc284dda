import { randomUUID, timingSafeEqual } from "node:crypto";
import { unescape as percentDecoded } from "node:querystring";
import { parseAddress } from "../gate/address.ts";

/**
 * Metadata between gateway and services. Metadata about the client is only trusted together with
 * the secret.
 */
export const SECRET = "x-gatehouse-secret";

const CLIENT_ADDRESS = "x-gatehouse-client-address";

const CLIENT_AGENT = "x-gatehouse-client-agent";

/** Response header of a health check: duration of the check, in ms. */
export const LATENCY_MS = "x-gatehouse-latency-ms";

/** Response header of a successful call that leaves the client's cookies unchanged. */
export const KEEPS_COOKIES = "x-gatehouse-keeps-cookies";

/** Response header: request fields that the AI model ignored. */
export const AI_IGNORED = "x-ai-ignored";

/**
 * Response headers of calls under a budget: the limit, the remaining amount, and the seconds until
 * the reset.
 */
export const BUDGET_LIMIT = "x-budget-limit";
export const BUDGET_REMAINING = "x-budget-remaining";
export const BUDGET_RESET = "x-budget-reset";

/** Maximum length of a stored User-Agent, in characters. */
const MAX_AGENT_LENGTH = 400;

/** The client of a request. */
export type Client = {
  /** IP address. */
  address: string;
  /** User-Agent, at most 400 characters; empty if none was sent. */
  agent: string;
};

/** The caller's request id if it is well-formed, otherwise a new one. */
export function requestIdOf(sent: unknown): string {
  return typeof sent === "string" && /^(?!(?:start|jobs)$)[\w.-]{1,128}$/.test(sent)
    ? sent
    : randomUUID();
}

/** Whether a call carries the secret shared by the gateways. */
export function isGatewaySecret(sent: unknown, secret: string | undefined): boolean {
  return secret !== undefined && typeof sent === "string" && equalSecrets(sent, secret);
}

/** Writes the client of a request into the metadata of its call. */
export function writeClient(
  header: Headers,
  { address, agent }: Client,
  secret: string | undefined,
): void {
  header.set(CLIENT_ADDRESS, address);
  if (agent) header.set(CLIENT_AGENT, encodeURIComponent(agent.slice(0, MAX_AGENT_LENGTH)));
  if (secret !== undefined) header.set(SECRET, secret);
}

/**
 * Reads the client of a call.
 * @param peer the address of the connection, which is the client's unless a gateway calls
 */
export function readClient(header: Headers, peer: string, secret: string | undefined): Client {
  const isGateway = isGatewaySecret(header.get(SECRET), secret);
  const agent = isGateway
    ? percentDecoded(header.get(CLIENT_AGENT) ?? "")
    : (header.get("user-agent") ?? "");
  const address = isGateway ? parseAddress(header.get(CLIENT_ADDRESS) ?? "") : undefined;
  return { address: address ?? peer, agent: agent.slice(0, MAX_AGENT_LENGTH) };
}

/** Compares two secrets in time that depends only on their lengths. */
export function equalSecrets(a: string, b: string): boolean {
  const [left, right] = [Buffer.from(a), Buffer.from(b)];
  return left.length === right.length && timingSafeEqual(left, right);
}
