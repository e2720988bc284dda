import { defineEntity, type OptionalProps, p } from "@mikro-orm/core";

const table = defineEntity({
  name: "User",
  tableName: "users",
  properties: {
    id: p.uuid().primary(),
    email: p.string(), // as typed; mail goes here
    canonicalEmail: p.string().unique(),
    name: p.string(),
    bio: p.string().nullable(),
    role: p.string().$type<Role>(),
    passwordHash: p.string().hidden(),
    passwordChangedAt: p.datetime(),
    emailVerifiedAt: p.datetime().nullable(),
    wasVerified: p.boolean().default(false), // before an administrator took that back, or changed the address
    termsAcceptedAt: p.datetime(),
    mfaSecret: p.string().nullable().hidden(), // encrypted; null: no second factor
    mfaConfirmedAt: p.datetime().nullable(), // a first code has been accepted
    mfaLastStep: p.integer().nullable(), // TOTP steps up to this one are used
    lastLoginAt: p.datetime().nullable(),
    deletionAt: p.datetime().nullable(), // when the account will be erased
    createdAt: p.datetime(),
    updatedAt: p.datetime(),
  },
});

/** Roles, by their JSON names. */
export type Role = "user" | "admin";

/** An account. */
export class User extends table.class {
  declare [OptionalProps]?: "emailVerified" | "mfaEnabled";
  get emailVerified(): boolean {
    return this.emailVerifiedAt != null;
  }
  get mfaEnabled(): boolean {
    return this.mfaSecret != null;
  }
}
table.setClass(User);
