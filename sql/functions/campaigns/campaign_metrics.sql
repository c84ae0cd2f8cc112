-- campaign_metrics(paths, limit): the own counts of campaigns at and below some paths: of those with unfinished tasks,
-- most first, then of the newest with tasks. A part of the metrics of gateways.
--
-- campaigns: how many have unfinished tasks. A path without a campaign has none.
--
-- Reads no task. Of all campaigns, or a subtree of 1,000 and more, it reads those with unfinished tasks and as many of the
-- queue's newest as `limit` says: nothing grows with those that have ended.
-- Index: campaign_pkey, counter_pkey, delta_xid; see perhaps_unfinished().
--
-- The newest are found by one pass over their ids, not one by one.
-- @roles all
-- @standby no
-- @gateway no
-- @plan generic by-scan
create or replace function taskq.campaign_metrics(p_paths text[], p_limit integer)
returns table (
    path text,
    state text,
    waiting bigint,
    delayed bigint,
    working bigint,
    done bigint,
    failed bigint,
    cancelled bigint,
    failures bigint,
    losses bigint,
    campaigns bigint
)
language plpgsql stable
as $$
declare
    v_from constant bigint := coalesce((
        select c.campaign_id
          from taskq.campaign c
         order by c.campaign_id desc
        offset p_limit - 1
         limit 1), 0);
    v_older constant bigint[] := array(
        select distinct u.campaign_id
          from unnest(p_paths) as p (path)
         cross join lateral taskq.perhaps_unfinished(p.path) u
         where u.campaign_id < v_from);
begin
    return query
        with node as materialized (
            select c.campaign_id, c.path, c.status, c.lineage
              from taskq.campaign c
             where c.campaign_id >= v_from
               and exists (select from unnest(p_paths) as p (path) where taskq.at_or_below(c.path, p.path))
             union all
            select c.campaign_id, c.path, c.status, c.lineage
              from unnest(v_older) as u (campaign_id)
             cross join lateral taskq.campaign_of(u.campaign_id) c
        ), part as (
            select n.campaign_id, n.waiting, n.delayed, n.working, n.done, n.failed, n.cancelled, n.failures, n.losses
              from taskq.counter n
             where n.campaign_id >= v_from
             union all
            select n.campaign_id, n.waiting, n.delayed, n.working, n.done, n.failed, n.cancelled, n.failures, n.losses
              from unnest(v_older) as u (campaign_id)
             cross join lateral taskq.counter_of(u.campaign_id) n
             union all
            select f.campaign_id, f.waiting, f.delayed, f.working, f.done, f.failed, f.cancelled, f.failures, f.losses
              from taskq.moved_counts() f
        ), own as (
            select p.campaign_id,
                   taskq.total(p.waiting) as waiting, taskq.total(p.delayed) as delayed,
                   taskq.total(p.working) as working, taskq.total(p.done) as done, taskq.total(p.failed) as failed,
                   taskq.total(p.cancelled) as cancelled, taskq.total(p.failures) as failures,
                   taskq.total(p.losses) as losses
              from part p
             group by p.campaign_id
        ), above as materialized (
            select l.campaign_id, c.status
              from (
                  select distinct a.campaign_id
                    from node n
                   cross join lateral unnest(n.lineage[: cardinality(n.lineage) - 1]) as a (campaign_id)
              ) l
             cross join lateral taskq.campaign_of(l.campaign_id) c
             where c.status <> 'open'
        )
        select n.path,
               greatest(n.status, (select max(a.status) from above a where a.campaign_id = any (n.lineage)))::text,
               o.waiting, o.delayed, o.working, o.done, o.failed, o.cancelled, o.failures, o.losses,
               count(*) filter (where o.waiting + o.delayed + o.working > 0) over ()
          from node n
          join own o on o.campaign_id = n.campaign_id
         where o.waiting + o.delayed + o.working + o.done + o.failed + o.cancelled > 0
         order by o.waiting + o.delayed + o.working desc, n.campaign_id desc
         limit p_limit;
end
$$;
