export type * from "./api.ts";
export { type Client, type ClientOptions, createClient } from "./client.ts";
export { type ClientErrorCode, GatehouseError } from "./errors.ts";
export type { Lock, TokenStore, Tokens } from "./session.ts";
