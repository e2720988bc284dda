-- Each guess in progress has an id with its time, so that it expires alone and can be released again. The previous
-- release counts its own in `reserved`.
alter table attempts add column reservations uuid[] not null default '{}';
