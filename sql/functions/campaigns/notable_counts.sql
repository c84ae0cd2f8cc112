-- notable_counts(path): the counts of those campaigns at and below a path about which there is something to say.
--
-- Result: the columns of counts() at depth null, so each row's own counts. Of a subtree of at most 1,000 campaigns all;
-- of a larger one, and of the whole queue, the campaign at the path, those with unfinished tasks, the 20 with most
-- failed tasks, the first 1,000 that are not open, those of the queue's 20 newest that are there, and all that are
-- above one of these. with_below: each row's counts with all below it, in the order of the columns; null if all
-- campaigns of the subtree are rows.
-- Error TQ404: no such campaign.
--
-- Reads no task. The cost grows with the rows and with what is unfinished or has failed anywhere, not with campaigns
-- whose tasks have all succeeded. Index: those of counts(), counter_unfinished, counter_failed.
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
    v_most_failed constant integer := 20;
    v_most_closed constant integer := 1000;
    v_newest constant integer := 20;
    v_top constant bigint := taskq.campaign_id(p_path);
    v_ids constant bigint[] := taskq.unfinished_ids(p_path);
begin
    if v_ids is null then
        return query
            select n.*, null::bigint[] from taskq.counts(p_path, null) n;
        return;
    end if;
    return query
        with chosen as (
            select u.campaign_id from unnest(v_ids) as u (campaign_id)
             union
            (select n.campaign_id
               from taskq.counter n
              cross join lateral taskq.campaign_of(n.campaign_id) c
              where n.has_failed
                and v_top = any (c.lineage)
              order by n.failed desc, n.campaign_id
              limit v_most_failed)
             union
            (select c.campaign_id
               from taskq.campaign c
              where c.status <> 'open'
                and v_top = any (c.lineage)
              order by c.path
              limit v_most_closed)
             union
            (select c.campaign_id from taskq.campaign c order by c.campaign_id desc limit v_newest)
             union
            select v_top
        ), node as materialized (
            select a.campaign_id
              from chosen h
             cross join lateral taskq.campaign_of(h.campaign_id) c
             cross join lateral unnest(c.lineage) as a (campaign_id)
             where v_top = any (c.lineage)
             group by a.campaign_id
        ), part as (
            select o.campaign_id as node, true as own, n.waiting, n.delayed, n.working, n.done, n.failed,
                   n.cancelled, n.failures, n.losses
              from node o
              left join lateral taskq.counter_of(o.campaign_id) n on true
             union all
            select o.campaign_id, false, s.waiting, s.delayed, s.working, s.done, s.failed, s.cancelled,
                   s.failures, s.losses
              from node o
             cross join lateral taskq.subtotal_of(o.campaign_id) s
             union all
            select a.campaign_id, a.campaign_id = f.campaign_id, f.waiting, f.delayed, f.working, f.done,
                   f.failed, f.cancelled, f.failures, f.losses
              from taskq.moved_counts() f
             cross join lateral taskq.campaign_of(f.campaign_id) c
             cross join lateral unnest(c.lineage) as a (campaign_id)
             where v_top = any (c.lineage)
        ), summed as (
            select p.node,
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
        select s.node, c.path, taskq.campaign_state(s.node), c.paused_why,
               (select count(*) from taskq.campaign b where b.parent_id = s.node),
               s.waiting, s.delayed, s.working, s.done, s.failed, s.cancelled, s.failures, s.losses,
               s.with_below
          from summed s
         cross join lateral taskq.campaign_of(s.node) c
         where v_top = any (c.lineage)
         order by c.path;
end
$$;
