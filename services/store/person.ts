import type { Db } from "./statement.ts";

/** A user as lists show them. */
export type Person = { id: string; name: string; email: string };

/** The person of a joined row of `users`, as a column; null once erased. */
export const personColumn = (table: string, name: string) =>
  `case when ${table}.id is not null then
     jsonb_build_object('id', ${table}.id, 'name', ${table}.name, 'email', ${table}.email) end as "${name}"`;

/** Finds users, by id. Erased ones are missing. */
export async function findPeople({ em }: Db, ids: readonly string[]): Promise<Map<string, Person>> {
  const unique = [...new Set(ids)];
  if (unique.length === 0) return new Map();
  const people = await em.execute<Person[]>(
    "select id, name, email from users where id = any(:ids::uuid[])",
    { ids: `{${unique.join()}}` }, // one value, since there may be 5,000
  );
  return new Map(people.map((person) => [person.id, person]));
}
