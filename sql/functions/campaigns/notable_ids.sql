-- notable_ids(path): the campaigns at and below a path about which there is something to say, with all above them.
--
-- Result: null: the subtree has at most 1,000 campaigns, so it is read as a whole. Of a larger one, and of the whole
-- queue, the campaign at the path, those with unfinished tasks, the 20 with most failed tasks, the first 1,000 that are
-- paused, or not open with campaigns below, those of the queue's 20 newest that are there, and all that are above one of
-- these.
-- Error TQ404: no such campaign.
--
-- The cost grows with what is unfinished or has failed anywhere, not with campaigns whose tasks have all succeeded.
-- Index: campaign_pkey, campaign_closed, counter_failed, and those of unfinished_ids().
-- @plan generic by-key
create or replace function taskq.notable_ids(p_path text)
returns bigint[]
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
        return null;
    end if;
    return array(
        select distinct a.campaign_id
          from (
              select c.lineage
                from unnest(v_ids) as u (campaign_id)
               cross join lateral taskq.campaign_of(u.campaign_id) c
               union all
              (select c.lineage
                 from taskq.counter n
                cross join lateral taskq.campaign_of(n.campaign_id) c
                where n.has_failed
                  and v_top = any (c.lineage)
                order by n.failed desc, n.campaign_id
                limit v_most_failed)
               union all
              (select c.lineage
                 from taskq.campaign c
                where (c.status = 'paused' or c.status <> 'open' and c.has_below)
                  and v_top = any (c.lineage)
                order by c.path
                limit v_most_closed)
               union all
              (select c.lineage from taskq.campaign c order by c.campaign_id desc limit v_newest)
               union all
              select array[v_top]
          ) h
         cross join lateral unnest(h.lineage[array_position(h.lineage, v_top) :]) as a (campaign_id)
         where v_top = any (h.lineage));
end
$$;
