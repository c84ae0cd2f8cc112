-- Who is at work for the whole queue: the keeper (null: there never was one, or the clock was set back since, see
-- functions/believed.sql), the refiller of the front, agents. Index: session_open; all else are single rows.
-- @roles reader
-- @standby yes
-- @gateway manager
select clock_timestamp() as now,
       case when k.until < clock_timestamp() + interval '1 hour' then nullif(k.until, '-infinity') end
           as keeper_until, f.epoch > 0 as has_front, f.pool_s,
       r.until > clock_timestamp() as refilled,
       (select count(*) from taskq.session s where s.ended_at is null) as agents,
       (select h.by_owner from taskq.sharing h) as by_owner
  from taskq.keeper k, taskq.front f, taskq.front_refiller r
