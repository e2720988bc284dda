import type { Interceptor } from "@connectrpc/connect";
import { type AppContext, Call, callKey } from "../call.ts";
import { readClient } from "../platform/metadata.ts";
import { admittedKey } from "../platform/server-hooks.ts";
import { createFindSession } from "../sessions/find-session.ts";
import type { Store } from "../store/store.ts";
import { onComplete } from "./on-complete.ts";

/** Creates the call of each request: its client, its trace and its unit of work. */
export function createCall(context: AppContext, store: Store, internalSecret: string | undefined): Interceptor {
  const findSession = createFindSession(store, context.clock);
  return (next) => (req) => {
    const { address = "127.0.0.1" } = req.contextValues.get(admittedKey) ?? {};
    const client = readClient(req.header, address, internalSecret);
    const call = new Call(context, store, findSession, client, req);
    req.contextValues.set(callKey, call);
    return onComplete(next, req, () => {
      for (const callback of call.onComplete) callback();
    });
  };
}
