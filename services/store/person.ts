/** A user as lists show them. */
export type Person = { id: string; name: string; email: string };

/** The person of a joined row of `users`, as a column; null once erased. */
export const personColumn = (table: string, name: string) =>
  `case when ${table}.id is not null then
     jsonb_build_object('id', ${table}.id, 'name', ${table}.name, 'email', ${table}.email) end as "${name}"`;
