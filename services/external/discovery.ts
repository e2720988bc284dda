import type * as library from "openid-client";
import { z } from "zod";
import type { Call } from "../call.ts";
import { OutboundError } from "../platform/outbound.ts";
import type { Discovered, ExternalProvider } from "./registry.ts";

type Deps = Pick<Call, "external" | "clock" | "signal">;

/** Time limit for all requests of a start or finish, in ms. */
export const DEADLINE_MS = 5_000;
/** How long a discovery document is used, in ms. */
const DOCUMENT_MS = 3_600_000;
/**
 * Pause after a document or keys could not be read or used, in ms. Anybody can begin a sign-in, and
 * must not be able to send a request to a broken provider with each.
 */
const PAUSE_MS = 5_000;
const JSON_TYPE = { "content-type": "application/json" };

/** The members of a discovery document that are used here (OpenID Connect Discovery section 3). */
const documentSchema = z.object({
  authorization_endpoint: z.url(),
  token_endpoint: z.url(),
  jwks_uri: z.url(),
  token_endpoint_auth_methods_supported: z.array(z.string()).optional(),
});
/** A set with at least one key (RFC 7517 section 5). */
const keySetSchema = z.object({ keys: z.array(z.looseObject({})).min(1) });

/** What was read from a provider. */
export function discoveredOf(
  { external: { discovered } }: Pick<Call, "external">,
  { id }: ExternalProvider,
): Discovered {
  const known = discovered.get(id) ?? {};
  discovered.set(id, known);
  return known;
}

/**
 * The discovery document of a provider, from the cache if a good one was read within the last hour.
 * Concurrent callers share one request.
 * @param signal ends the wait, not the request
 * @throws Error if there is none that can be used
 */
export async function readDocument(
  call: Deps,
  provider: ExternalProvider,
  signal: AbortSignal,
): Promise<Response> {
  const known = discoveredOf(call, provider);
  const { document } = known;
  if (document && isWithin(call, document.readAt, DOCUMENT_MS))
    return new Response(document.text, { headers: JSON_TYPE });
  assertNotPaused(call, known.documentFailedAt);
  known.reading ??= requestDocument(call, provider, known).finally(() => {
    delete known.reading;
  });
  const text = await unlessAborted(known.reading, signal);
  return new Response(text, { headers: JSON_TYPE });
}

async function requestDocument(
  call: Deps,
  provider: ExternalProvider,
  known: Discovered,
): Promise<string> {
  try {
    const { discovery, customFetch, allowInsecureRequests } = await import("openid-client");
    const { issuer, clientId } = provider;
    const signal = AbortSignal.timeout(DEADLINE_MS); // not that of the caller, who may disconnect
    let text = "";
    const keepText: library.CustomFetch = async (url, { method, headers }) => {
      const response = await call.external.outbound.fetch(url, { method, headers }, signal);
      text = await response.clone().text();
      return response;
    };
    const configuration = await discovery(new URL(issuer), clientId, undefined, undefined, {
      [customFetch]: keepText,
      execute: issuer.startsWith("http:") ? [allowInsecureRequests] : [],
    });
    const used = documentSchema.parse(configuration.serverMetadata());
    for (const url of [used.authorization_endpoint, used.token_endpoint, used.jwks_uri])
      if (!call.external.outbound.allows(new URL(url))) throw new Error("an endpoint is unsafe");
    known.document = { text, readAt: call.clock.now().getTime() };
    delete known.keys; // they may be elsewhere now
    return text;
  } catch (error) {
    known.documentFailedAt = call.clock.now().getTime();
    throw error;
  }
}

/**
 * Requests the keys of a provider, unless they could not be used a moment ago.
 * @throws OutboundError if there are none that can be used
 */
export async function readKeys(
  call: Deps,
  provider: ExternalProvider,
  request: () => Promise<Response>,
): Promise<Response> {
  const known = discoveredOf(call, provider);
  assertNotPaused(call, known.keysFailedAt);
  try {
    const response = await request();
    const text = await response.text();
    if (response.status !== 200) throw new Error(`status ${response.status}`);
    keySetSchema.parse(JSON.parse(text));
    return new Response(text, { headers: JSON_TYPE });
  } catch (error) {
    if (!call.signal.aborted) known.keysFailedAt = call.clock.now().getTime();
    throw new OutboundError(`the keys of ${provider.id} can't be used`, { cause: error });
  }
}

const isWithin = ({ clock }: Deps, time: number | undefined, ms: number): boolean =>
  time !== undefined && Math.abs(clock.now().getTime() - time) < ms;

/** @throws OutboundError */
function assertNotPaused(call: Deps, failedAt: number | undefined): void {
  if (isWithin(call, failedAt, PAUSE_MS)) throw new OutboundError("it has just failed");
}

/** @throws OutboundError if the signal aborts first */
async function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  const aborted = new Promise<never>((_resolve, reject) => {
    const end = () => reject(new OutboundError("no answer in time", { cause: signal.reason }));
    if (signal.aborted) end();
    signal.addEventListener("abort", end, { once: true });
  });
  return Promise.race([work, aborted]);
}
