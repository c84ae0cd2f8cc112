-- The campaigns with tasks at and below some paths, with their own counts, those with most unfinished tasks first;
-- and how many there are. A path without a campaign has none.
-- Reads no task; it costs as much as counts(). Index: those of counts(), campaign_path_key.
-- @roles all
-- @standby no
-- @gateway no
with own as (
    select distinct on (n.path) n.path, n.state::text, n.waiting, n.delayed, n.working, n.done, n.failed,
           n.cancelled, n.failures, n.losses
      from unnest(%(paths)s::text[]) as p (path)
     cross join lateral taskq.counts(p.path, null) n
     where exists (select from taskq.campaign c where c.path = p.path)
     order by n.path
)
select o.path, o.state, o.waiting, o.delayed, o.working, o.done, o.failed, o.cancelled, o.failures, o.losses,
       count(*) over () as campaigns
  from own o
 where o.waiting + o.delayed + o.working + o.done + o.failed + o.cancelled > 0
 order by o.waiting + o.delayed + o.working desc, o.path
 limit %(limit)s
