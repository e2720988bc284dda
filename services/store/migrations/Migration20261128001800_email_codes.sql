-- The browser or app that requested a code by e-mail. The link in the e-mail works only there.
alter table one_time_tokens add column device_id uuid;
