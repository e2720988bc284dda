import { readdirSync, readFileSync } from "node:fs";
import { getOption } from "@bufbuild/protobuf";
import { expect, test } from "vitest";
import { AdminService } from "../../../gen/gatehouse/account/v1/admin_service_pb.ts";
import { AuthService } from "../../../gen/gatehouse/account/v1/auth_service_pb.ts";
import { UserService } from "../../../gen/gatehouse/account/v1/user_service_pb.ts";
import { AIService } from "../../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import { policy } from "../../../gen/gatehouse/platform/v1/policy_pb.ts";
import { ACTIONS, type Action, type Actor, refusalOf } from "../../../web/src/lib/offers.ts";
import { messages } from "../../../web/src/messages/index.ts";

const person = (id: string, role: string) => ({ id, role }) as NonNullable<Actor["viewer"]>;
const ACTORS = {
  "a user": { viewer: person("ann", "user"), isImpersonating: false },
  "an administrator": { viewer: person("root", "admin"), isImpersonating: false },
  "an administrator who acts as a user": { viewer: person("ann", "user"), isImpersonating: true },
  nobody: { viewer: undefined, isImpersonating: false },
};
const TARGETS = {
  "a user": { id: "bea", role: "user" },
  "another administrator": { id: "chief", role: "admin" },
  themselves: { id: "root", role: "admin" },
  "a service account": { id: "report", role: "user", serviceAccount: true },
} as const;

const SESSION_OWNER: Action[] = [
  "updateProfile",
  "changePassword",
  "getSignInMethods",
  "setPassword",
  "removePassword",
  "requireSecondFactor",
  "changeEmail",
  "setupTotp",
  "disableTotp",
  "createBackupCodes",
  "listPasskeys",
  "renamePasskey",
  "connectIdentity",
  "listIdentities",
  "deleteIdentity",
  "confirm",
  "revokeSession",
  "revokeOtherSessions",
  "createApiKey",
  "revokeApiKey",
  "exportData",
  "deleteAccount",
];

const OWN = SESSION_OWNER.flatMap((action) => [
  { action, actor: "a user", refusal: undefined },
  { action, actor: "an administrator", refusal: undefined },
  {
    action,
    actor: "an administrator who acts as a user",
    refusal: "errors.IMPERSONATING",
  },
]);
test.for(OWN)("$action: an offer to $actor is refused with $refusal", (row) => {
  expect(refusalOf(row.action, ACTORS[row.actor as keyof typeof ACTORS])).toBe(row.refusal);
});

const ADMINISTRATION: { actor: keyof typeof ACTORS; refusal: string | undefined }[] = [
  { actor: "a user", refusal: "errors.FORBIDDEN" },
  { actor: "an administrator", refusal: undefined },
  { actor: "an administrator who acts as a user", refusal: "errors.IMPERSONATING" },
  { actor: "nobody", refusal: "errors.FORBIDDEN" },
];
test.for(ADMINISTRATION)("administration: for $actor it is refused with $refusal", (row) => {
  expect(refusalOf("administration", ACTORS[row.actor])).toBe(row.refusal);
});

type OnUser = { action: Action; target: keyof typeof TARGETS; refusal: string | undefined };
const ON_USERS: OnUser[] = [
  { action: "updateUser.role", target: "a user", refusal: undefined },
  { action: "updateUser.role", target: "another administrator", refusal: undefined },
  { action: "updateUser.role", target: "themselves", refusal: "errors.SELF_TARGETED" },
  { action: "updateUser.access", target: "a user", refusal: undefined },
  {
    action: "updateUser.access",
    target: "another administrator",
    refusal: "refused.administratorAccess",
  },
  { action: "updateUser.access", target: "themselves", refusal: "refused.ownAccess" },
  { action: "updateUser.role", target: "a service account", refusal: "refused.serviceAccount" },
  { action: "updateUser.access", target: "a service account", refusal: "refused.serviceAccount" },
  { action: "impersonate", target: "a service account", refusal: "refused.serviceAccount" },
  { action: "deleteUser", target: "a service account", refusal: undefined },
  { action: "deleteUser", target: "a user", refusal: undefined },
  { action: "deleteUser", target: "another administrator", refusal: undefined },
  { action: "deleteUser", target: "themselves", refusal: "errors.SELF_TARGETED" },
  { action: "impersonate", target: "a user", refusal: undefined },
  { action: "impersonate", target: "another administrator", refusal: "refused.impersonateAdmin" },
  { action: "impersonate", target: "themselves", refusal: "errors.SELF_TARGETED" },
];
test.for(ON_USERS)(
  "$action on $target: offered to administrators, or refused with $refusal",
  (row) => {
    const target = TARGETS[row.target];
    expect(refusalOf(row.action, ACTORS["an administrator"], target)).toBe(row.refusal);
    for (const actor of ["a user", "an administrator who acts as a user", "nobody"] as const)
      expect(refusalOf(row.action, ACTORS[actor], target)).toBeDefined();
  },
);

test("every reason is a sentence of the catalogue", () => {
  const reasons = ACTIONS.flatMap((action) =>
    Object.values(ACTORS).flatMap((actor) =>
      Object.values(TARGETS).map((target) => refusalOf(action, actor, target)),
    ),
  ).filter((reason) => reason !== undefined);
  expect(reasons.filter((reason) => !(reason in messages))).toEqual([]);
});

const METHODS = [AuthService, UserService, AdminService, AIService].flatMap(
  ({ methods }) => methods,
);
/** The methods of the API that the app calls, by their names in the client. */
const CALLED = readdirSync("web/src", { recursive: true, encoding: "utf8" })
  .filter((name) => /\.(svelte|ts)$/.test(name))
  .flatMap((name) => [
    ...readFileSync(`web/src/${name}`, "utf8").matchAll(/\b(?:auth|user|admin|ai)\.(\w+)\(/g),
  ])
  .map(([, method = ""]) => method);

test("the app refuses during impersonation what the API refuses, and nothing else that it offers", () => {
  const impersonating = ACTORS["an administrator who acts as a user"];
  const isRefused = ({ localName }: { localName: string }) =>
    ACTIONS.some(
      (name) => name.split(".")[0] === localName && refusalOf(name, impersonating) !== undefined,
    );
  const wrong = METHODS.filter(
    (method) => getOption(method, policy).forbidImpersonation !== isRefused(method),
  );
  expect(wrong.map(({ localName }) => localName)).toEqual([]);
});

test("the app knows every method that it calls and that the API refuses during impersonation", () => {
  const called = METHODS.filter(({ localName }) => CALLED.includes(localName));
  expect(called.length).toBeGreaterThan(25);
  const offered = called.filter((method) => {
    if (!getOption(method, policy).forbidImpersonation) return false;
    const action = ACTIONS.find((name) => name.split(".")[0] === method.localName);
    return !action || !refusalOf(action, ACTORS["an administrator who acts as a user"]);
  });
  expect(offered.map(({ localName }) => localName)).toEqual([]);
});
