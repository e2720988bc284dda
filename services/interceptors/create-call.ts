import { createContextKey, type Interceptor } from "@connectrpc/connect";
import { type AppContext, Call, callKey } from "../call.ts";
import { readClient } from "../platform/metadata.ts";
import { createFindSession } from "../sessions/find-session.ts";
import type { Store } from "../store/store.ts";
import { onComplete } from "./on-complete.ts";

/** Address of the socket's other end, set by the server that accepts the connection. */
export const peerKey = createContextKey<string>("127.0.0.1", { description: "peer address" });

/** Creates the call of each request: its client, its trace and its unit of work. */
export function createCall(context: AppContext, store: Store, internalSecret: string | undefined): Interceptor {
  const findSession = createFindSession(store, context.clock);
  return (next) => (req) => {
    const client = readClient(req.header, req.contextValues.get(peerKey), internalSecret);
    const call = new Call(context, store, findSession, client, req);
    req.contextValues.set(callKey, call);
    return onComplete(next, req, () => {
      for (const callback of call.onComplete) callback();
    });
  };
}
