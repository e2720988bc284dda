import type { Component } from "svelte";
import { visibly } from "./net.svelte.ts";
import { type Actor, refusalOf } from "./offers.ts";

type Loaded = { default: Component<Record<string, string>> };
type Load = () => Promise<Loaded>;
/** What is shown at a route: standalone, or within the frame of the app. */
type Found = { load: Load; params: Record<string, string>; isAlone: boolean };

const page =
  (load: () => Promise<{ default: unknown }>): Load =>
  () =>
    visibly(load as Load);

const signIn = page(() => import("../pages/SignIn.svelte"));
const notFound = page(() => import("../pages/NotFound.svelte"));
/** Pages for everybody. */
const open: Record<string, Load> = {
  "/register": page(() => import("../pages/Register.svelte")),
  "/forgot-password": page(() => import("../pages/ForgotPassword.svelte")),
  "/verify-email": page(() => import("../pages/VerifyEmail.svelte")),
  "/reset-password": page(() => import("../pages/ResetPassword.svelte")),
};
const own: Record<string, Load> = {
  "/": page(() => import("../pages/Chat.svelte")),
  "/usage": page(() => import("../pages/Usage.svelte")),
  "/profile": page(() => import("../pages/Profile.svelte")),
  "/security": page(() => import("../pages/Security.svelte")),
  "/sessions": page(() => import("../pages/Sessions.svelte")),
  "/api-keys": page(() => import("../pages/ApiKeys.svelte")),
  "/data": page(() => import("../pages/Data.svelte")),
};
const admin: Record<string, Load> = {
  "/admin": page(() => import("../pages/admin/Dashboard.svelte")),
  "/admin/users": page(() => import("../pages/admin/Users.svelte")),
  "/admin/service-accounts": page(() => import("../pages/admin/ServiceAccounts.svelte")),
  "/admin/api-keys": page(() => import("../pages/admin/AllApiKeys.svelte")),
  "/admin/audit": page(() => import("../pages/admin/Audit.svelte")),
  "/admin/emails": page(() => import("../pages/admin/Emails.svelte")),
  "/admin/usage": page(() => import("../pages/admin/AllUsage.svelte")),
};
const adminUser = page(() => import("../pages/admin/User.svelte"));

/** The page at a route, and whom it is for. Others have to sign in first. */
export function pageOf(path: string, actor: Actor): Found {
  const found = (load: Load, params = {}, isAlone = false) => ({ load, params, isAlone });
  const openPage = open[path];
  if (openPage) return found(openPage, {}, true);
  if (!actor.viewer) return found(signIn, {}, true);
  if (path === "/sign-in") return found(own["/"] ?? notFound);
  const isAdmin = refusalOf("administration", actor) === undefined;
  const load = own[path] ?? (isAdmin ? admin[path] : undefined);
  if (load) return found(load);
  const [, userId] = /^\/admin\/users\/([\w-]+)$/.exec(path) ?? [];
  return userId && isAdmin ? found(adminUser, { userId }) : found(notFound);
}
