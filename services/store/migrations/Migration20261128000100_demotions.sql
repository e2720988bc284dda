-- Administrators stay protected for some days after a demotion. Demotions by processes of the previous release set no time.
alter table users add column demoted_at timestamptz(3);
