import { openStore } from "../../services/store/open-store.ts";
import { silent } from "./log.ts";

/** Opens a store that logs nothing: on PostgreSQL by its URL, and else in memory. */
export const openQuietStore = (url?: string, limits: { statementMs?: number } = {}) =>
  openStore(url === undefined ? { kind: "memory" } : { kind: "postgres", url, ...limits }, silent);
