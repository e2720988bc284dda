import { IS_USABLE } from "./api-keys.ts";
import { IS_OPEN } from "./sessions.ts";
import { type HotDb, prepared } from "./statement.ts";

const findValid = prepared<{ ids: string[]; now: Date }, { id: string }>(
  "find_valid_credentials",
  `with given as materialized (select unnest(:ids::uuid[]) as id)
   select s.id from given join sessions s on s.id = given.id where ${IS_OPEN}
   union all
   select k.id from given join api_keys k on k.id = given.id join users t on t.id = k.user_id where ${IS_USABLE}`,
);

/** Finds which of the given sessions and API keys are still valid, in one prepared statement. */
export async function findValidCredentials(
  db: HotDb,
  ids: string[],
  now: Date,
): Promise<Set<string>> {
  return new Set((await findValid(db, { ids, now })).map(({ id }) => id));
}
