-- For the rest of the transaction: walk ranges of keys, and join them by hashing or merging. With statistics from
-- before a campaign was seeded the planner would choose nested loops, or scans of whole tables.
-- @roles all
-- @standby no
-- @gateway no
select set_config('plan_cache_mode', 'force_custom_plan', true),
       set_config('enable_seqscan', 'off', true),
       set_config('enable_bitmapscan', 'off', true),
       set_config('enable_nestloop', 'off', true),
       set_config('jit', 'off', true)
