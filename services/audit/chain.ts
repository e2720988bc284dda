import { hash } from "node:crypto";

/** The link before the first one. */
export const GENESIS = "0".repeat(64);

/** The link of an event: over the link before it, its id, and the digest of its row ("" where the row was gone already). */
export function linkOf(previous: string, id: string, digest: string): string {
  return hash("sha256", `${previous} ${id} ${digest}`, "hex");
}

/** The link that records that retention has dropped the events below an id. */
export function dropLinkOf(previous: string, droppedBelow: string): string {
  return hash("sha256", `${previous} dropped below ${droppedBelow}`, "hex");
}
