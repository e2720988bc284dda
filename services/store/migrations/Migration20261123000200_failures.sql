-- Consecutive failures are counted across locks. Clearing a lock records its time, for the rate limit.
alter table attempts add column consecutive integer not null default 0, add column cleared_at timestamptz(3);
