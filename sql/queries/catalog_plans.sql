-- For the rest of the transaction: catalogs of many rows are read through the pages that an index names, each once.
-- @roles all
-- @standby no
-- @gateway no
select set_config('enable_seqscan', 'off', true),
       set_config('enable_indexscan', 'off', true),
       set_config('enable_indexonlyscan', 'off', true),
       set_config('jit', 'off', true)
