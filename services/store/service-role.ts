import type { SqlEntityManager } from "@mikro-orm/postgresql";

/**
 * Grants a PostgreSQL role the privileges that the service needs. The role can read the audit log and append to it, but
 * not change or delete events. Run it as the owner of the tables, after each migration.
 * @throws Error if the name needs quoting, or if the role may create objects in the schema: the owner could be made to
 * run its functions (CVE-2018-1058)
 */
export async function grantServiceRole(em: SqlEntityManager, role: string): Promise<void> {
  if (!/^[a-z_][a-z0-9_]{0,62}$/.test(role)) throw new Error("The role must be a plain lower-case name.");
  await em.transactional(async () => {
    const [tables] = await em.execute<{ schema: string; open: boolean; owner: string }[]>(
      `select relnamespace::regnamespace::text as schema, relowner::regrole::text as owner,
         has_schema_privilege(?, relnamespace, 'create') as open
       from pg_class where oid = 'users'::regclass`,
      [role],
    );
    if (tables?.open) {
      const problem = `${role} may create in the schema ${tables.schema}, which was the default before PostgreSQL 15`;
      const remedy = `grant create on schema ${tables.schema} to ${tables.owner}; revoke create on schema ${tables.schema} from public`;
      throw new Error(`${problem}. As the schema's owner, run first: ${remedy}`);
    }
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
