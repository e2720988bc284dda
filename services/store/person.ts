import type { Db } from "./statement.ts";

/** A user as shown in lists. */
export type Person = { id: string; name: string; email: string };

/** SQL column with the person in a joined row of `users`; null for an erased user. */
export const personColumn = (table: string, name: string) =>
  `case when ${table}.id is not null then
     jsonb_build_object('id', ${table}.id, 'name', ${table}.name, 'email', ${table}.email) end as "${name}"`;

/** Finds users by id. Erased users are missing from the result. */
export async function findPeople({ em }: Db, ids: readonly string[]): Promise<Map<string, Person>> {
  const unique = [...new Set(ids)];
  if (unique.length === 0) return new Map();
  const people = await em.execute<Person[]>(
    "select id, name, email from users where id = any(:ids::uuid[])",
    { ids: `{${unique.join()}}` }, // one value, since there may be 5,000
  );
  return new Map(people.map((person) => [person.id, person]));
}
