-- The installation's own data about a user, a JSON object of at most 4 KiB; null for none. It is never searched, so it
-- is kept as it was written: jsonb would write 5e-324 as 324 digits.
alter table users add column metadata json;
