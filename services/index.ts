import type { ConnectRouter, Interceptor } from "@connectrpc/connect";
import { AdminService } from "../gen/gatehouse/account/v1/admin_service_pb.ts";
import { AuthService } from "../gen/gatehouse/account/v1/auth_service_pb.ts";
import { UserService } from "../gen/gatehouse/account/v1/user_service_pb.ts";
import { AIService } from "../gen/gatehouse/ai/v1/ai_service_pb.ts";
import { adminHandler } from "./admin/handler.ts";
import { aiHandler } from "./ai/handler.ts";
import { authHandler } from "./auth/handler.ts";
import type { AppContext } from "./call.ts";
import { auditDenials } from "./interceptors/audit-denials.ts";
import { authenticate, authorize } from "./interceptors/authorize.ts";
import { createCall } from "./interceptors/create-call.ts";
import { logCalls } from "./interceptors/log-calls.ts";
import { mapErrors } from "./interceptors/map-errors.ts";
import { limitAccounts } from "./interceptors/rate-limit.ts";
import { traceCalls } from "./interceptors/trace-calls.ts";
import { validate } from "./interceptors/validate.ts";
import type { RateLimiter } from "./platform/rate-limiter.ts";
import { watchDatabase } from "./store/availability.ts";
import type { Store } from "./store/store.ts";
import { userHandler } from "./user/handler.ts";

/** Adds every service to a router; a method without a handler answers NOT_IMPLEMENTED. */
export function serve(router: ConnectRouter): void {
  router.service(AuthService, authHandler);
  router.service(UserService, userHandler);
  router.service(AdminService, adminHandler);
  router.service(AIService, aiHandler);
}

/** What every call passes through, outermost first. */
export function interceptors(
  context: AppContext,
  store: Store,
  rateLimiter: RateLimiter | undefined,
  internalSecret: string | undefined,
): Interceptor[] {
  return [
    ...(context.tracing ? [traceCalls(context.tracing)] : []),
    logCalls(context.log, context.metrics),
    mapErrors(context.log, watchDatabase(store, context.log)),
    createCall(context, store, internalSecret),
    authenticate,
    auditDenials,
    authorize,
    validate,
    limitAccounts(rateLimiter),
  ];
}
