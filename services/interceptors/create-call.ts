import { createContextKey, type Interceptor } from "@connectrpc/connect";
import { type AppContext, type Call, callKey } from "../call.ts";
import { readClient, requestIdOf } from "../platform/metadata.ts";
import { createFindSession } from "../sessions/find-session.ts";
import type { Store } from "../store/store.ts";
import { onComplete } from "./on-complete.ts";

/** Address of the socket's other end, given by the server that accepts the connection. */
export const peerKey = createContextKey<string>("127.0.0.1", { description: "peer address" });

/** What belongs to one call; the rest is inherited by prototype, since copying it would be the costlier part. */
type OwnPart = Omit<Call, keyof AppContext | "em" | "query" | "findSession" | "signal"> & {
  request: { signal: AbortSignal };
  unitOfWork: Call["em"] | undefined;
};

/** Opens the call that the handler serves: who asks, from where, with a unit of work of its own. */
export function createCall(context: AppContext, store: Store, internalSecret: string | undefined): Interceptor {
  const shared = {
    ...context,
    query: store.query,
    findSession: createFindSession(store, context.clock),
    get em(): Call["em"] {
      const own = this as unknown as OwnPart;
      own.unitOfWork ??= store.fork(); // not every call asks the database
      return own.unitOfWork;
    },
    get signal(): AbortSignal {
      return (this as unknown as OwnPart).request.signal;
    },
  };
  return (next) => (req) => {
    const own: OwnPart = {
      requestId: requestIdOf(req.header.get("x-request-id")),
      startedAt: performance.now(),
      traceparent: req.header.get("traceparent"),
      client: readClient(req.header, req.contextValues.get(peerKey), internalSecret),
      caller: undefined,
      standing: undefined,
      attempt: undefined,
      unitOfWork: undefined,
      request: req,
      onComplete: [],
    };
    req.contextValues.set(callKey, Object.assign(Object.create(shared), own));
    return onComplete(next, req, () => {
      for (const after of own.onComplete) after();
    });
  };
}
