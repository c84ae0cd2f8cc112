-- What runs at and below a scope of agents but outside a path: the campaigns with most running tasks, and of
-- all of them how many there are, what they run, and their weights together.
-- Reads no task; it costs as much as notable_counts(). Index: those of notable_counts(), campaign_pkey.
-- @roles all
-- @standby yes
-- @gateway manager, quiet
select n.path, n.working, n.waiting, c.weight, count(*) over () as campaigns,
       (sum(n.working) over ())::bigint as all_working, sum(c.weight) over () as all_weights
  from taskq.notable_counts(%(scope)s) n
 cross join lateral (
     select c.weight from taskq.campaign c where c.campaign_id = n.campaign_id offset 0
 ) c
 where n.working > 0
   and not taskq.at_or_below(n.path, %(path)s)
 order by n.working desc, n.path
 limit %(limit)s
