-- Creates the extension for the user search index. Without it, searching still works, by scanning the table.
do $$ begin
  if not exists (select from pg_extension where extname = 'pg_trgm') then create extension pg_trgm; end if;
exception
  when duplicate_object or unique_violation then
    null; -- another process has just created it
  when undefined_file or feature_not_supported or insufficient_privilege then
    raise notice 'pg_trgm is not available: user search scans the table';
end $$
