-- Each guess in progress has an id with its time, so that it expires on its own and can be released. The previous
-- release counts its guesses in `reserved`.
alter table attempts add column reservations uuid[] not null default '{}';
