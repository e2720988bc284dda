export type * from "./api.ts";
export { type Client, type ClientOptions, createClient } from "./client.ts";
export { type ClientErrorCode, GatehouseError } from "./errors.ts";
export type { PasskeySignIn, Passkeys } from "./passkeys.ts";
export { type Claims, claimsOf, type Lock, type TokenStore, type Tokens } from "./session.ts";
