-- The campaign, at or above one, at which keepers look for the caller, and when they last did; no row: there is none.
-- whole: whether the caller may see the whole queue, as far as it is up to him.
-- Index: watch_pkey; there are few.
-- @roles reader
-- @standby yes
-- @gateway manager
select w.path, w.looked_at, clock_timestamp() as now
  from taskq.watch w
 where taskq.at_or_below(%(path)s, w.path)
   and w.whole = (%(whole)s::boolean and taskq.token_covers('/'))
   and taskq.token_covers(w.path)
 order by length(w.path) desc
 limit 1
