-- Failures in a row are counted across locks, and a cleared lock leaves its time for the rate limit.
alter table attempts add column consecutive integer not null default 0, add column cleared_at timestamptz(3);
