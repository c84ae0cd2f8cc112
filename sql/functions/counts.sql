-- counts(path, depth): how many tasks stand where, for a campaign (depth 0), for each campaign
-- directly below it (depth 1), or for each of the whole subtree (null).
--
-- Result: one row per campaign, ordered by path. At depth 0 and 1 the counts include all that is
-- below the row's campaign; at depth null they are the campaign's own. state: cancelled or paused
-- where the campaign or one above it is. Exact within the snapshot: counter plus deltas.
-- Error TQ404: no such campaign.
--
-- Reads no task. The cost grows with the number of campaigns in the subtree and the deltas not yet
-- folded (some thousands at most), not with tasks or campaigns elsewhere. Index: campaign_path_key
-- ("C" collation: a subtree is a range; '0' follows '/'), counter_pkey, delta_xid.
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
as $$
declare
    v_top taskq.campaign;
    v_level integer;
begin
    select c.* into v_top from taskq.campaign c where c.path = p_path;
    if not found then
        raise exception 'no campaign %', p_path using errcode = 'TQ404';
    end if;
    v_level := cardinality(v_top.lineage) + p_depth;

    return query
        with fresh as materialized (
            select d.campaign_id,
                   sum(d.waiting) as waiting, sum(d.delayed) as delayed,
                   sum(d.working) as working, sum(d.done) as done, sum(d.failed) as failed,
                   sum(d.cancelled) as cancelled, sum(d.failures) as failures,
                   sum(d.losses) as losses
              from taskq.delta d
             where d.xid >= (
                       select case when f.below <= pg_snapshot_xmax(pg_current_snapshot())
                                   then f.below else '0' end
                         from taskq.fold f)
             group by d.campaign_id
        ), own as (
            select c.parent_id,
                   case when p_depth is null then c.campaign_id else c.lineage[v_level] end as node,
                   n.waiting + coalesce(f.waiting, 0) as waiting,
                   n.delayed + coalesce(f.delayed, 0) as delayed,
                   n.working + coalesce(f.working, 0) as working,
                   n.done + coalesce(f.done, 0) as done,
                   n.failed + coalesce(f.failed, 0) as failed,
                   n.cancelled + coalesce(f.cancelled, 0) as cancelled,
                   n.failures + coalesce(f.failures, 0) as failures,
                   n.losses + coalesce(f.losses, 0) as losses
              from taskq.campaign c
              join taskq.counter n on n.campaign_id = c.campaign_id
              left join fresh f on f.campaign_id = c.campaign_id
             where c.path >= p_path
               and c.path < rtrim(p_path, '/') || '0'
               and (c.path = p_path or starts_with(c.path, rtrim(p_path, '/') || '/'))
        ), below as (
            select o.parent_id, count(*) as children
              from own o
             group by o.parent_id
        ), total as (
            select o.node, sum(o.waiting)::bigint as waiting, sum(o.delayed)::bigint as delayed,
                   sum(o.working)::bigint as working, sum(o.done)::bigint as done,
                   sum(o.failed)::bigint as failed, sum(o.cancelled)::bigint as cancelled,
                   sum(o.failures)::bigint as failures, sum(o.losses)::bigint as losses
              from own o
             where o.node is not null
             group by o.node
        )
        select c.campaign_id, c.path,
               (select max(a.status) from taskq.campaign a where a.campaign_id = any (c.lineage)),
               coalesce(b.children, 0),
               t.waiting, t.delayed, t.working, t.done, t.failed, t.cancelled, t.failures, t.losses
          from total t
          join taskq.campaign c on c.campaign_id = t.node
          left join below b on b.parent_id = c.campaign_id
         order by c.path;
end
$$;
