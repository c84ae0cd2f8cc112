-- counts(path, depth): tasks by status, for a campaign (depth 0, or -1), for each campaign directly below it
-- (depth 1), or for each of the whole subtree (null).
--
-- Result: one row per campaign, ordered by path. At depth 0 and 1 the counts include all that is
-- below the row's campaign; at depth -1 and null they are the campaign's own. state: archived, cancelled or paused
-- if the campaign or one above it is. paused_why: why the row's campaign paused itself; null: it did not. Exact
-- within the snapshot: counter plus deltas.
-- Error TQ404: no such campaign.
--
-- Reads no task. The cost grows with the rows, with the campaigns anywhere that moved within twenty seconds, and with
-- what was moved since the last fold; not with tasks or other campaigns.
-- Index: campaign_path_key, campaign_parent, campaign_closed, counter_pkey, subtotal_pkey, delta_xid.
--
-- The settings leave one plan: one pass over a range of paths, with counters, and the campaigns of
-- deltas, found by key. If there are more deltas than the statistics say, a join of deltas with campaigns without a
-- key would take a thousand times as long; compiling, thirty times.
-- @roles all
-- @standby yes
-- @gateway manager
-- @plan generic by-key
create or replace function taskq.counts(p_path text, p_depth integer)
returns table (
    campaign_id bigint,
    path text,
    state taskq.campaign_status,
    paused_why text,
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
as $$
declare
    v_top constant bigint := taskq.campaign_id(p_path);
    v_state constant taskq.campaign_status := taskq.campaign_state(v_top);
    v_paused bigint[];
    v_cancelled bigint[];
    v_archived bigint[];
begin
    if p_depth is not null then
        return query
            with node as (
                select c.* from taskq.campaign c where p_depth <= 0 and c.campaign_id = v_top
                 union all
                select c.* from taskq.campaign c where p_depth = 1 and c.parent_id = v_top
            ), part as (
                -- A campaign that lost its counter must appear, so that people can audit and remove it.
                select o.campaign_id as node, o.path, greatest(v_state, o.status) as state, o.paused_why,
                       n.children, n.waiting, n.delayed, n.working, n.done, n.failed, n.cancelled, n.failures,
                       n.losses
                  from node o
                  left join lateral taskq.counter_of(o.campaign_id) n on true
                 union all
                select o.campaign_id, null, null, null, null,
                       s.waiting, s.delayed, s.working, s.done, s.failed, s.cancelled, s.failures,
                       s.losses
                  from node o
                 cross join lateral taskq.subtotal_of(o.campaign_id) s
                 where p_depth >= 0
                 union all
                select a.node, null, null, null, case when a.node = f.campaign_id then f.children end,
                       f.waiting, f.delayed, f.working, f.done, f.failed, f.cancelled, f.failures,
                       f.losses
                  from taskq.moved_counts() f
                 -- With a join, servers before 17 would go through all campaigns.
                 cross join lateral taskq.campaign_of(f.campaign_id) c
                 cross join lateral (
                     select c.lineage[array_position(c.lineage, v_top) + greatest(p_depth, 0)] as node
                 ) a
                 where v_top = any (c.lineage)
                   and (p_depth >= 0 or f.campaign_id = v_top)
            )
            select p.node, max(p.path), max(p.state), max(p.paused_why), taskq.total(p.children),
                   taskq.total(p.waiting), taskq.total(p.delayed), taskq.total(p.working),
                   taskq.total(p.done), taskq.total(p.failed), taskq.total(p.cancelled),
                   taskq.total(p.failures), taskq.total(p.losses)
              from part p
             where p.node is not null
             group by p.node
             order by max(p.path);
        return;
    end if;

    select c.paused, c.cancelled, c.archived
      into v_paused, v_cancelled, v_archived
      from taskq.closed_campaigns(p_path) c;
    return query
        with part as (
            select c.campaign_id as node, c.campaign_id, c.parent_id, c.path,
                   greatest(
                       v_state, c.status,
                       case when c.lineage && v_archived then 'archived'::taskq.campaign_status
                            when c.lineage && v_cancelled then 'cancelled'
                            when c.lineage && v_paused then 'paused' end) as state,
                   c.paused_why,
                   n.waiting, n.delayed, n.working, n.done, n.failed, n.cancelled, n.failures,
                   n.losses
              from taskq.subtree(p_path) c
              -- A campaign that lost its counter must appear, so that people can audit and remove it.
              left join taskq.counter n on n.campaign_id = c.campaign_id
             union all
            select c.campaign_id, null, null, null, null, null,
                   f.waiting, f.delayed, f.working, f.done, f.failed, f.cancelled, f.failures,
                   f.losses
              from taskq.moved_counts() f
             -- With a join, servers before 17 would go through all campaigns.
             cross join lateral taskq.campaign_of(f.campaign_id) c
             where v_top = any (c.lineage)
             union all
            -- A campaign also counts as a child of the one above it.
            select c.parent_id, null, c.parent_id, null, null, null, 0, 0, 0, 0, 0, 0, 0, 0
              from taskq.subtree(p_path) c
             where c.campaign_id <> v_top
        )
        select p.node,
               min(p.path),  -- a path sorts before those below it
               max(p.state) filter (where p.campaign_id = p.node),
               max(p.paused_why) filter (where p.campaign_id = p.node),
               count(*) filter (where p.parent_id = p.node),
               taskq.total(p.waiting), taskq.total(p.delayed), taskq.total(p.working),
               taskq.total(p.done), taskq.total(p.failed), taskq.total(p.cancelled),
               taskq.total(p.failures), taskq.total(p.losses)
          from part p
         group by p.node
         order by min(p.path);
end
$$;
