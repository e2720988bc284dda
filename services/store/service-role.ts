import type { SqlEntityManager } from "@mikro-orm/postgresql";

/**
 * Gives a PostgreSQL role what the service needs and no more: it owns nothing, and can add to the audit log and read it,
 * but neither change nor remove anything there. Run it as the owner of the tables, after each migration.
 * @throws Error for a name that is not a plain one
 */
export async function grantServiceRole(em: SqlEntityManager, role: string): Promise<void> {
  if (!/^[a-z_][a-z0-9_]{0,62}$/.test(role)) throw new Error("The role must be a plain lower-case name.");
  await em.transactional(async () => {
    const [tables] = await em.execute<{ schema: string }[]>(
      "select relnamespace::regnamespace::text as schema from pg_class where oid = 'users'::regclass",
    );
    await em.execute(`grant usage on schema ${tables?.schema} to ${role}`);
    await em.execute(`grant select, insert, update, delete on all tables in schema ${tables?.schema} to ${role}`);
    await em.execute(
      `do $$ declare part text; begin
         for part in select c.oid::regclass::text from pg_class c
           where c.relname ~ '^audit_(events|seals)' and c.relkind in ('r', 'p') and c.relnamespace = '${tables?.schema}'::regnamespace
         loop execute format('revoke all on %s from ${role}', part); end loop;
       end $$`,
    );
    await em.execute(`grant select, insert on audit_events, audit_seals to ${role}`);
  });
}
