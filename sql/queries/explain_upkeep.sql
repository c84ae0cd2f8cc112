-- Who is at work for the whole queue: the keeper (null: there never was one, or the clock was set back since, see
-- believed.sql), for how long the queue stood still within the hour (null: it did not), which committed work was found to
-- be gone within a day (null: none), the refiller of the front, agents of the campaigns that a manager's token is for.
-- Index: session_open, campaign_pkey; all else are single rows.
-- @roles reader
-- @standby yes
-- @gateway manager
select clock_timestamp() as now,
       case when k.until < clock_timestamp() + interval '1 hour' then nullif(k.until, '-infinity') end
           as keeper_until, f.epoch > 0 as has_front, f.pool_s,
       r.until > clock_timestamp() as refilled,
       (select coalesce(sum(s.agents), 0)::bigint
          from (select s.campaign_id, count(*) as agents
                  from taskq.session s
                 where s.ended_at is null
                 group by s.campaign_id) s
         cross join lateral (
             select c.path from taskq.campaign c where c.campaign_id = s.campaign_id offset 0
         ) c
         where taskq.token_covers(c.path)) as agents,
       (select h.by_owner from taskq.sharing h) as by_owner,
       (select row_to_json(l)
          from (select sum(extract(epoch from s.until - greatest(s.since, now() - interval '1 hour'))) as seconds,
                       max(s.until) as until
                  from taskq.stall s
                 where s.until > now() - interval '1 hour') l
         where l.until is not null) as stalled,
       (select row_to_json(b)
          from taskq.set_back b
         where b.noted_at > now() - interval '1 day'
         order by b.noted_at desc
         limit 1) as set_back
  from taskq.keeper k, taskq.front f, taskq.front_refiller r
 where k.only_one
   and r.only_one
