import type { Component } from "svelte";
import { visibly } from "./net.svelte.ts";
import { type Actor, refusalOf } from "./offers.ts";

type Loaded = { default: Component<Record<string, string>> };
type Load = () => Promise<Loaded>;
/** What surrounds a page. */
export type FrameName = "alone" | "chat" | "account" | "console";
/** The page at a place. */
type Found = { load: Load; params: Record<string, string>; frame: FrameName };

/** A page that is loaded once. If loading fails, it is not retried until the app is reloaded. */
function page(load: () => Promise<{ default: unknown }>): Load {
  let loading: Promise<Loaded> | undefined;
  return () => {
    loading ??= visibly(load as Load);
    return loading;
  };
}

const signIn = page(() => import("../pages/SignIn.svelte"));
const notFound = page(() => import("../pages/NotFound.svelte"));
const chat = page(() => import("../pages/Chat.svelte"));
/** Pages that require no sign-in. */
const open: Record<string, Load> = {
  "/register": page(() => import("../pages/Register.svelte")),
  "/forgot-password": page(() => import("../pages/ForgotPassword.svelte")),
  "/verify-email": page(() => import("../pages/VerifyEmail.svelte")),
  "/external": page(() => import("../pages/External.svelte")),
  "/email-code": page(() => import("../pages/EmailCode.svelte")),
  "/not-me": page(() => import("../pages/NotMe.svelte")),
  "/reset-password": page(() => import("../pages/ResetPassword.svelte")),
};
const account: Record<string, Load> = {
  "/account/profile": page(() => import("../pages/Profile.svelte")),
  "/account/security": page(() => import("../pages/Security.svelte")),
  "/account/sessions": page(() => import("../pages/Sessions.svelte")),
  "/account/api-keys": page(() => import("../pages/ApiKeys.svelte")),
  "/account/usage": page(() => import("../pages/Usage.svelte")),
  "/account/data": page(() => import("../pages/Data.svelte")),
};
const console: Record<string, Load> = {
  "/admin": page(() => import("../pages/admin/Overview.svelte")),
  "/admin/users": page(() => import("../pages/admin/Users.svelte")),
  "/admin/service-accounts": page(() => import("../pages/admin/ServiceAccounts.svelte")),
  "/admin/api-keys": page(() => import("../pages/admin/AllApiKeys.svelte")),
  "/admin/audit-log": page(() => import("../pages/admin/Audit.svelte")),
  "/admin/emails": page(() => import("../pages/admin/Emails.svelte")),
  "/admin/webhooks": page(() => import("../pages/admin/Webhooks.svelte")),
  "/admin/usage": page(() => import("../pages/admin/AllUsage.svelte")),
  "/admin/budgets": page(() => import("../pages/admin/Budgets.svelte")),
  "/admin/providers": page(() => import("../pages/admin/Providers.svelte")),
};
const user = page(() => import("../pages/admin/User.svelte"));

/**
 * Finds the page at a place. Without a sign-in, that is the sign-in page; others than
 * administrators do not find pages for administrators.
 */
export function pageOf(path: string, actor: Actor): Found {
  const found = (load: Load, frame: FrameName, params = {}) => ({ load, params, frame });
  const openPage = open[path];
  if (openPage) return found(openPage, "alone");
  if (!actor.viewer) return found(signIn, "alone");
  if (path === "/" || path === "/sign-in" || /^\/c\/[\w-]+$/.test(path)) return found(chat, "chat");
  const own = account[path === "/account" ? "/account/profile" : path];
  if (own) return found(own, "account");
  const isAdmin = refusalOf("administration", actor) === undefined;
  const load = isAdmin ? console[path] : undefined;
  if (load) return found(load, "console");
  const [, userId] = /^\/admin\/users\/([\w-]+)$/.exec(path) ?? [];
  return userId && isAdmin ? found(user, "console", { userId }) : found(notFound, "account");
}
