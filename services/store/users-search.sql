-- Makes the index of searches, unless it is there. Where the extension can't be had, searching still works, by reading.
-- The extension may be in a schema that is not searched. Runs after the migrations: it may have been installed since.
do $$ begin
  if to_regclass('users_search') is not null then return; end if;
  create extension if not exists pg_trgm;
  execute format('create index users_search on users using gin
    ((lower(email) || chr(10) || lower(name)) %s.gin_trgm_ops) with (fastupdate = off)',
    (select extnamespace::regnamespace from pg_extension where extname = 'pg_trgm'));
exception when undefined_file or feature_not_supported or insufficient_privilege then
  raise notice 'pg_trgm is not available: searching users reads the table';
end $$
