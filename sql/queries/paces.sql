-- For each campaign at or below a path with unfinished tasks, in itself or below, and a point of its trend within a
-- day (in a small queue also for others): how many tasks had ended where its
-- rate begins, and for how many seconds it has moved since. The rate begins at the latest point after which the
-- campaign moved for 600 s and 100 tasks ended, else at the first of the 70 latest points. Time that began without a
-- working task counts as a minute if tasks ended in it, else as nothing. Retried tasks, which had ended before, do
-- not lower the rate. working: how many tasks were at work on average in these seconds, 1 at least; null: there are none.
-- Index: trend_pkey, 70 entries a campaign; campaign_pkey; see perhaps_unfinished().
-- @roles reader
-- @standby yes
-- @gateway manager
with removed as materialized (
    select a.campaign_id, sum(r.done + r.failed)::bigint as ended
      from taskq.removed_sum r
     cross join lateral (select n.lineage from taskq.campaign n where n.campaign_id = r.campaign_id offset 0) n
     cross join lateral unnest(n.lineage) as a (campaign_id)
     group by a.campaign_id
)
select c.campaign_id, b.ended - coalesce(r.ended, 0) as ended, b.active_s, b.working
  from (
      select distinct a.campaign_id
        from taskq.perhaps_unfinished(%(path)s) u
       cross join lateral (
           select c.lineage from taskq.campaign c where c.campaign_id = u.campaign_id offset 0
       ) n
       cross join lateral unnest(n.lineage) as a (campaign_id)
  ) u
 cross join lateral (
     select c.campaign_id, c.path from taskq.campaign c where c.campaign_id = u.campaign_id offset 0
 ) c
 cross join lateral (
     select (s.last_ended - s.gained)::bigint as ended, s.active_s,
            (s.held_s / nullif(s.active_s, 0))::float8 as working
       from (
           select t.minute, t.last_ended,
                  sum(t.gained) over newest as gained, sum(t.active_s) over newest as active_s,
                  sum(t.active_s * greatest(t.working, 1)) over newest as held_s
             from (
                 select p.minute, p.working, first_value(p.ended) over newest as last_ended,
                        greatest(lag(p.ended) over newest - p.ended, 0) as gained,
                        case when p.working > 0 then p.until_s - p.minute * 60.0::float8
                             when (lag(p.ended) over newest > p.ended) is not false
                             then least(p.until_s - p.minute * 60.0::float8, 60)
                             else 0 end as active_s
                   from (
                       select p.minute, p.done + p.failed as ended, p.working,
                              coalesce(
                                  lag(p.minute) over (order by p.minute desc) * 60.0::float8,
                                  extract(epoch from clock_timestamp())::float8) as until_s
                         from taskq.trend p
                        where p.campaign_id = c.campaign_id
                          and p.minute >= extract(epoch from clock_timestamp()) / 60 - 1440
                        order by p.campaign_id desc, p.minute desc
                        limit 70
                   ) p
                 window newest as (order by p.minute desc)
             ) t
           window newest as (order by t.minute desc)
       ) s
      order by s.active_s >= 600 and s.gained >= 100 desc,
               case when s.active_s >= 600 and s.gained >= 100 then -s.minute else s.minute end
      limit 1
 ) b
  left join removed r on r.campaign_id = c.campaign_id
 where taskq.at_or_below(c.path, %(path)s)
