import { createContextKey, type Interceptor } from "@connectrpc/connect";
import { v4 as randomId } from "uuid";
import { type Call, type Client, callKey, type Tools } from "../call.ts";
import { equalSecrets } from "../security/cipher.ts";
import type { Store } from "../store/orm.ts";
import { settled } from "./settled.ts";

/** Address of the socket's other end, given by the server that accepts the connection. */
export const peerKey = createContextKey<string>("127.0.0.1", { description: "peer address" });

/** Longest User-Agent that is kept, in characters. */
const MAX_AGENT = 400;

/** Opens the call that the handler serves: who asks, from where, with a unit of work of its own. */
export function openCall(tools: Tools, store: Store, internalSecret: string | undefined): Interceptor {
  return (next) => (req) => {
    const afterwards: Call["afterwards"] = [];
    let em: Call["em"] | undefined;
    req.contextValues.set(callKey, {
      ...tools,
      requestId: saneRequestId(req.header.get("x-request-id")),
      startedAt: performance.now(),
      traceparent: req.header.get("traceparent"),
      client: clientOf(req.header, req.contextValues.get(peerKey), internalSecret),
      caller: undefined,
      attempt: undefined,
      get em() {
        em ??= store.fork(); // not every call asks the database
        return em;
      },
      query: store.query,
      signal: req.signal,
      afterwards,
    });
    return settled(next, req, () => {
      for (const after of afterwards) after();
    });
  };
}

/** What metadata says of the client counts only when the gateway's secret comes with it. */
function clientOf(header: Headers, peer: string, internalSecret: string | undefined): Client {
  const secret = header.get("x-gatehouse-secret");
  if (internalSecret && secret && equalSecrets(secret, internalSecret)) {
    return {
      address: header.get("x-gatehouse-client-address") ?? peer,
      agent: decode(header.get("x-gatehouse-client-agent") ?? "").slice(0, MAX_AGENT),
    };
  }
  return { address: peer, agent: (header.get("user-agent") ?? "").slice(0, MAX_AGENT) };
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function saneRequestId(id: string | null): string {
  return id && /^[\w.-]{1,128}$/.test(id) ? id : randomId();
}
