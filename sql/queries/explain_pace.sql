-- How many tasks of a campaign and of all below it had ended a quarter of an hour ago, by the last point of its trend
-- until then; and how many of these ended in how many minutes before, six hours at most. Nothing: its trend is not as
-- old. A campaign at rest gets no points: the last point before an instant holds for it.
-- What was removed since does not count, as in the counts of now.
-- Index: campaign_path_key, trend_pkey; goes through `removed_sum`.
-- @roles reader
-- @standby yes
-- @gateway manager
select (l.ended - r.ended)::bigint as ended_then, (l.ended - e.ended) as ended_before, t.minute - 15 - e.minute as minutes_before
  from (select floor(extract(epoch from clock_timestamp()) / 60)::integer as minute) t
 cross join taskq.campaign c
 cross join lateral (
     select p.done + p.failed as ended
       from taskq.trend p
      where p.campaign_id = c.campaign_id
        and p.minute <= t.minute - 15
      order by p.campaign_id desc, p.minute desc
      limit 1) l
 cross join lateral (
     select p.minute, p.done + p.failed as ended
       from taskq.trend p
      where p.campaign_id = c.campaign_id
        and p.minute >= t.minute - 15 - 360
      order by p.campaign_id, p.minute
      limit 1) e
 cross join lateral (
     select coalesce(sum(r.done + r.failed), 0) as ended
       from taskq.removed_sum r
      cross join lateral (select n.lineage from taskq.campaign n where n.campaign_id = r.campaign_id offset 0) n
      where n.lineage @> array[c.campaign_id]) r
 where c.path = %(path)s
