import { AuthService } from "../../gen/gatehouse/account/v1/auth_service_pb.ts";
import { UserService } from "../../gen/gatehouse/account/v1/user_service_pb.ts";
import type { Routes } from "./stub-services.ts";

/** Services with one account, and the metadata of the last call for its profile. */
export function stubAccounts(): { routes: Routes; metadata: () => Record<string, string> } {
  let metadata: Record<string, string> = {};
  const routes: Routes = (router) =>
    router
      .service(UserService, {
        getProfile: (_request, context) => {
          metadata = Object.fromEntries(context.requestHeader);
          return { user: { id: "1" } };
        },
        revokeSession: () => ({ message: "ok" }),
      })
      .service(AuthService, {
        login: () => ({ accessToken: "secret-token", refreshToken: "secret-refresh" }),
        refresh: () => ({}),
        logout: () => ({}),
      });
  return { routes, metadata: () => metadata };
}
