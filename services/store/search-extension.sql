-- Makes the extension of the index of user searches. Where it can't be had, searching still works, by reading.
do $$ begin
  if not exists (select from pg_extension where extname = 'pg_trgm') then create extension pg_trgm; end if;
exception when undefined_file or feature_not_supported or insufficient_privilege or unique_violation then
  raise notice 'pg_trgm is not available: searching users reads the table';
end $$
