export type * from "./api.ts";
export { FORBIDDEN_IMPERSONATING } from "./api.ts";
export { type Client, type ClientOptions, createClient, type Routes } from "./client.ts";
export type { CompletionPiece, CompletionRequest } from "./completions.ts";
export { type ClientErrorCode, GatehouseError } from "./errors.ts";
export type { PasskeySignIn, Passkeys } from "./passkeys.ts";
export { type Claims, claimsOf, type Lock, type TokenStore, type Tokens } from "./session.ts";
