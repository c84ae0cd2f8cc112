-- unsuccessful(campaign, tasks): which of some tasks have ended without a result, in the given order.
--
-- status: failed, cancelled, or removed: there is no such task (any more).
--
-- Plans: see tasks(). Index: task_pkey, span_pkey, spec_pkey.
-- @roles reader
-- @standby yes
-- @gateway manager
-- @plan generic by-key
create or replace function taskq.unsuccessful(p_campaign bigint, p_tasks bigint[])
returns table (task_id bigint, status text)
language plpgsql stable
as $$
begin
    return query
        select k.task_id, e.status
          from unnest(p_tasks) with ordinality as k (task_id, ord)
         cross join lateral (
             select case
                        when not coalesce((
                            select true
                              from taskq.spec s
                             where s.campaign_id = p_campaign
                               and s.task_id >= k.task_id
                               and s.task_id <= k.task_id
                             order by s.campaign_id, s.task_id
                             limit 1), false) then 'removed'
                        else coalesce(
                            -- As text, which no partial index answers.
                            (select t.status::text
                               from taskq.task t
                              where t.campaign_id = p_campaign
                                and t.task_id = k.task_id
                                and t.status::text in ('failed', 'cancelled')),
                            (select n.status::text
                               from (
                                   select n.next_id, n.last_id, n.status
                                     from taskq.span n
                                    where n.campaign_id = p_campaign
                                      and n.first_id <= k.task_id
                                    order by n.campaign_id desc, n.first_id desc
                                    limit 1
                               ) n
                              where k.task_id between n.next_id and n.last_id
                                and n.status::text = 'cancelled'))
                    end as status
             offset 0
         ) e
         where e.status is not null
         order by k.ord;
end
$$;
