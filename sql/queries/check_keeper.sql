-- Until when a keeper acts (null: none has, or the clock was set back since), the server's time, whether any agent
-- is there, until when ended attempts are in the sums, and since when it waits to add the next ones: a keeper that has just
-- begun, in a queue that had none, does not wait. Index: session_open, summed_pkey.
-- @roles reader
-- @standby no
-- @gateway no
select clock_timestamp() as now,
       case when k.until < clock_timestamp() + interval '1 hour' then nullif(k.until, '-infinity') end as until,
       exists (select from taskq.session s where s.ended_at is null and s.session_id <> 0) as has_agents,
       m.until as summed, m.next_at as waits_since
  from taskq.keeper k
 cross join taskq.summed m
 where k.only_one
   and m.only_one
