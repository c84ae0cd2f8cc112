-- notable_counts(path): the counts of those campaigns at and below a path about which there is something to say.
--
-- Result: the columns of counts() at depth null, so each row's own counts, of the campaigns that notable_ids() names.
-- with_below: each row's counts with all below it, in the order of the columns; null if all campaigns of the subtree
-- are rows.
-- Error TQ404: no such campaign.
--
-- Reads no task. The cost grows with the rows and with what is unfinished or has failed anywhere, not with campaigns
-- whose tasks have all succeeded.
-- Index: those of counts() and notable_ids().
-- @roles all
-- @standby yes
-- @gateway manager
-- @plan generic by-key
create or replace function taskq.notable_counts(p_path text)
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
    losses bigint,
    with_below bigint[]
)
language plpgsql stable
as $$
declare
    v_top constant bigint := taskq.campaign_id(p_path);
    v_state constant taskq.campaign_status := taskq.campaign_state(v_top);
    v_ids constant bigint[] := taskq.notable_ids(p_path);
begin
    if v_ids is null then
        return query
            select n.*, null::bigint[] from taskq.counts(p_path, null) n;
        return;
    end if;
    return query
        with node as materialized (
            select c.campaign_id, c.path, c.status, c.paused_why, c.lineage
              from unnest(v_ids) as u (campaign_id)
             cross join lateral taskq.campaign_of(u.campaign_id) c
        ), closed as materialized (
            -- All above a row are rows.
            select array_agg(o.campaign_id) filter (where o.status = 'paused') as paused,
                   array_agg(o.campaign_id) filter (where o.status = 'cancelled') as cancelled,
                   array_agg(o.campaign_id) filter (where o.status = 'archived') as archived
              from node o
             where o.status <> 'open'
        ), part as (
            select o.campaign_id as node, true as own, o.path, o.status, o.paused_why, o.lineage, n.children,
                   n.waiting, n.delayed, n.working, n.done, n.failed, n.cancelled, n.failures, n.losses
              from node o
              left join lateral taskq.counter_of(o.campaign_id) n on true
             union all
            select o.campaign_id, false, null, null, null, null, null,
                   s.waiting, s.delayed, s.working, s.done, s.failed, s.cancelled, s.failures, s.losses
              from node o
             cross join lateral taskq.subtotal_of(o.campaign_id) s
             union all
            select a.campaign_id, a.campaign_id = f.campaign_id, null, null, null, null, f.children,
                   f.waiting, f.delayed, f.working, f.done, f.failed, f.cancelled, f.failures, f.losses
              from taskq.moved_counts() f
             cross join lateral taskq.campaign_of(f.campaign_id) c
             cross join lateral unnest(c.lineage) as a (campaign_id)
             where v_top = any (c.lineage)
               and a.campaign_id = any (v_ids)
        ), summed as (
            select p.node, max(p.path) as path, max(p.status) as status, max(p.paused_why) as paused_why,
                   max(p.lineage) as lineage,
                   taskq.total(p.children) filter (where p.own) as children,
                   taskq.total(p.waiting) filter (where p.own) as waiting,
                   taskq.total(p.delayed) filter (where p.own) as delayed,
                   taskq.total(p.working) filter (where p.own) as working,
                   taskq.total(p.done) filter (where p.own) as done,
                   taskq.total(p.failed) filter (where p.own) as failed,
                   taskq.total(p.cancelled) filter (where p.own) as cancelled,
                   taskq.total(p.failures) filter (where p.own) as failures,
                   taskq.total(p.losses) filter (where p.own) as losses,
                   array[taskq.total(p.waiting), taskq.total(p.delayed), taskq.total(p.working),
                         taskq.total(p.done), taskq.total(p.failed), taskq.total(p.cancelled),
                         taskq.total(p.failures), taskq.total(p.losses)] as with_below
              from part p
             group by p.node
        )
        select s.node, s.path,
               greatest(
                   v_state, s.status,
                   case when s.lineage && k.archived then 'archived'::taskq.campaign_status
                        when s.lineage && k.cancelled then 'cancelled'
                        when s.lineage && k.paused then 'paused' end),
               s.paused_why, s.children,
               s.waiting, s.delayed, s.working, s.done, s.failed, s.cancelled, s.failures, s.losses,
               s.with_below
          from summed s
         cross join closed k
         order by s.path;
end
$$;
