-- For the rest of the transaction: go through ranges of keys, and join them as they come. Nested loops,
-- or whole tables, would be chosen by statistics that know nothing of tasks seeded a minute ago.
-- @roles all
-- @standby no
-- @gateway no
select set_config('plan_cache_mode', 'force_custom_plan', true),
       set_config('enable_seqscan', 'off', true),
       set_config('enable_bitmapscan', 'off', true),
       set_config('enable_nestloop', 'off', true),
       set_config('jit', 'off', true)
