-- Until when a keeper acts (null: none has, or the clock was set back since), the server's time, whether any agent
-- is there, and until when ended attempts are in the sums. Index: session_open, summed_pkey.
-- @roles reader
-- @standby no
-- @gateway no
select clock_timestamp() as now,
       case when k.until < clock_timestamp() + interval '1 hour' then nullif(k.until, '-infinity') end as until,
       exists (select from taskq.session s where s.ended_at is null and s.session_id <> 0) as has_agents,
       (select m.until from taskq.summed m where m.only_one) as summed
  from taskq.keeper k
 where k.only_one
