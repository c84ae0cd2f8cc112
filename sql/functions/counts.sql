-- counts(path, depth): how many tasks stand where, for a campaign (depth 0), for each campaign
-- directly below it (depth 1), or for each of the whole subtree (null).
--
-- Result: one row per campaign, ordered by path. At depth 0 and 1 the counts include all that is
-- below the row's campaign; at depth null they are the campaign's own. state: cancelled or paused
-- where the campaign or one above it is. Exact within the snapshot: counter plus deltas.
-- Error TQ404: no such campaign.
--
-- Reads no task. The cost grows with the number of campaigns in the subtree and the deltas not yet
-- folded (some thousands at most), not with tasks or campaigns elsewhere.
-- Index: campaign_path_key, campaign_closed, counter_pkey, delta_xid.
--
-- The settings leave one plan: the campaigns are a range of paths, their counters are found by one
-- pass over their ids, and the rest is joined by hash. A nested loop over deltas that are thought to
-- be few would take a thousand times as long; compiling the statement, thirty times.
create or replace function taskq.counts(p_path text, p_depth integer)
returns table (
    campaign_id bigint,
    path text,
    state taskq.campaign_status,
    children bigint,
    waiting bigint,
    delayed bigint,
    working bigint,
    done bigint,
    failed bigint,
    cancelled bigint,
    failures bigint,
    losses bigint
)
language plpgsql stable
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_nestloop = off
set enable_mergejoin = off
set jit = off
as $$
declare
    v_top constant bigint := taskq.campaign_id(p_path);
    v_state constant taskq.campaign_status := taskq.state_of(v_top);
    -- Where in a lineage the row's campaign stands.
    v_level constant integer := (
        select cardinality(c.lineage) from taskq.campaign c where c.campaign_id = v_top) + p_depth;
    -- At depth 0 and 1 there is nothing between the top and the row's campaign.
    v_paused bigint[];
    v_cancelled bigint[];
begin
    if p_depth is null then
        select c.paused, c.cancelled into v_paused, v_cancelled from taskq.closed(p_path) c;
    end if;

    return query
        with part as materialized (
            select c.campaign_id, c.parent_id, c.path,
                   case when p_depth is null then c.campaign_id else c.lineage[v_level] end as node,
                   greatest(
                       v_state, c.status,
                       case when c.lineage && v_cancelled then 'cancelled'::taskq.campaign_status
                            when c.lineage && v_paused then 'paused' end) as state
              from taskq.subtree(p_path) c
        ), fresh as (
            select d.campaign_id,
                   sum(d.waiting) as waiting, sum(d.delayed) as delayed,
                   sum(d.working) as working, sum(d.done) as done, sum(d.failed) as failed,
                   sum(d.cancelled) as cancelled, sum(d.failures) as failures,
                   sum(d.losses) as losses
              from taskq.unfolded() d
             group by d.campaign_id
        ), total as (
            select p.node,
                   taskq.total(n.waiting + coalesce(f.waiting, 0)) as waiting,
                   taskq.total(n.delayed + coalesce(f.delayed, 0)) as delayed,
                   taskq.total(n.working + coalesce(f.working, 0)) as working,
                   taskq.total(n.done + coalesce(f.done, 0)) as done,
                   taskq.total(n.failed + coalesce(f.failed, 0)) as failed,
                   taskq.total(n.cancelled + coalesce(f.cancelled, 0)) as cancelled,
                   taskq.total(n.failures + coalesce(f.failures, 0)) as failures,
                   taskq.total(n.losses + coalesce(f.losses, 0)) as losses
              from part p
              join taskq.counter n on n.campaign_id = p.campaign_id
              left join fresh f on f.campaign_id = p.campaign_id
             where n.campaign_id = any (array(select p.campaign_id from part p))
             group by p.node
        ), below as (
            select p.parent_id, count(*) as children
              from part p
             group by p.parent_id
        )
        select p.campaign_id, p.path, p.state, coalesce(b.children, 0),
               t.waiting, t.delayed, t.working, t.done, t.failed, t.cancelled, t.failures, t.losses
          from total t
          join part p on p.campaign_id = t.node
          left join below b on b.parent_id = p.campaign_id
         order by p.path;
end
$$;
