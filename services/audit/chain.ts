import { hash } from "node:crypto";
import type { SqlEntityManager } from "@mikro-orm/postgresql";

/** What the first link hangs on. */
export const GENESIS = "0".repeat(64);

/** SHA-256 of an audit event `e`, every column of it, in hex: the same text on every server, whatever its settings. */
const DIGEST = `encode(sha256(convert_to(row(e.id, e.event, e.outcome, e.user_id, e.actor_id, e.ip, e.user_agent,
  e.request_id, e.details, extract(epoch from e.created_at))::text, 'UTF8')), 'hex')`;

/** The end of a chain: give both to `npm run audit:verify` and nothing before it can have been cut off or rewritten. */
export type Head = { position: number; hash: string };

/** Digests of events by their ids, which are listed: to join a table of unknown size, a plan may read the whole log. */
export async function digestsOf(em: SqlEntityManager, ids: string[]): Promise<Map<string, string>> {
  const rows = await em.execute<{ id: string; digest: string }[]>(
    `select e.id, ${DIGEST} as digest from audit_events e where e.id = any(?::uuid[])`,
    [`{${ids.join(",")}}`],
  );
  return new Map(rows.map(({ id, digest }) => [id, digest]));
}

/** The link of an event: over the link before it, its id, and the digest of its row ("" where it was gone already). */
export function linkOf(previous: string, id: string, digest: string): string {
  return hash("sha256", `${previous} ${id} ${digest}`, "hex");
}

/** The link that tells of events below an id that retention has dropped. */
export function dropLinkOf(previous: string, droppedBelow: string): string {
  return hash("sha256", `${previous} dropped below ${droppedBelow}`, "hex");
}
