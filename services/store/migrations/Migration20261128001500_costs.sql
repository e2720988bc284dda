-- What a call cost, in nano-units (1e-9) of the currency of the catalogue; null if its model had no price. The counts
-- are parts of input_tokens and output_tokens; null if unknown. No column is required, since the previous release still
-- writes rows.
alter table ai_usage
  add column alias varchar(128),
  add column cached_input_tokens integer,
  add column cache_write_tokens integer,
  add column reasoning_tokens integer,
  add column attempts integer,
  add column cost_nanos bigint,
  -- The reservation of the call until it ends: counters of budgets, and amounts.
  add column reserved jsonb;

--> statement-breakpoint

alter table ai_usage_days
  add column cached_input_tokens bigint,
  add column reasoning_tokens bigint,
  add column cost_nanos bigint,
  -- Calls with a cost.
  add column priced_calls bigint;
