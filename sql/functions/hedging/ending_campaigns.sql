-- ending_campaigns(most): campaigns that hedge, are open and at their end: tasks are at work, and none waits. A
-- part of hedge(), which pins the settings; not for clients.
--
-- Leaves out campaigns whose owner has a quota of running tasks: a hedged task may have two running attempts.
-- room: how many more tasks may have a second attempt, above 0. Looks at `most` campaigns that hedge, from a
-- place drawn at random, so that none is passed over for ever.
-- Index: campaign_hedge, campaign_pkey, counter_pkey, delta_xid.
create or replace function taskq.ending_campaigns(p_most integer)
returns table (campaign_id bigint, lineage bigint[], requires text[], room bigint)
language plpgsql
as $$
declare
    v_first bigint;
begin
    select floor(random() * (max(c.campaign_id) + 1)) into v_first
      from taskq.campaign c
     where c.hedge is not null;
    if v_first is null then
        return;
    end if;
    return query
        with hedging as materialized (
            select c.*
              from (
                  (select c.campaign_id, c.lineage, c.requires, c.hedge, c.hedged
                     from taskq.campaign c
                    where c.hedge is not null
                      and c.max_running is null
                      and c.campaign_id >= v_first
                    order by c.campaign_id
                    limit p_most)
                   union all
                  (select c.campaign_id, c.lineage, c.requires, c.hedge, c.hedged
                     from taskq.campaign c
                    where c.hedge is not null
                      and c.max_running is null
                      and c.campaign_id < v_first
                    order by c.campaign_id
                    limit p_most)
              ) c
             limit p_most
        ), moved as materialized (
            select d.campaign_id, sum(d.waiting) as waiting, sum(d.working) as working,
                   sum(d.waiting + d.delayed + d.working + d.done + d.failed + d.cancelled) as tasks
              from taskq.unfolded() d
             where d.campaign_id = any (array(select h.campaign_id from hedging h))
             group by d.campaign_id
        )
        select h.campaign_id, h.lineage, h.requires, r.room
          from hedging h
         cross join lateral taskq.counter_of(h.campaign_id) n
          left join moved m on m.campaign_id = h.campaign_id
         cross join lateral (
             select ceil(h.hedge * (n.waiting + n.delayed + n.working + n.done + n.failed + n.cancelled
                                    + coalesce(m.tasks, 0)))::bigint - h.hedged as room
         ) r
         where n.waiting + coalesce(m.waiting, 0) = 0
           and n.working + coalesce(m.working, 0) > 0
           and r.room > 0
           and taskq.campaign_state(h.campaign_id) = 'open';
end
$$;
