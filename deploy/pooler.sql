-- The settings that Gatehouse requests at connection start, as defaults of its role: poolers do not forward them.
alter role gatehouse set statement_timeout = '15s';
alter role gatehouse set lock_timeout = '3s';
alter role gatehouse set datestyle = 'ISO';
alter role gatehouse set timezone = 'UTC';
alter role gatehouse set standard_conforming_strings = on;
alter role gatehouse set default_transaction_isolation = 'read committed';
