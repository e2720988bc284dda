-- The browser or app that asked for a code by e-mail: the link in the e-mail works there alone.
alter table one_time_tokens add column device_id uuid;
