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
                        when not exists (select from taskq.spec_of(p_campaign, k.task_id))
                        then 'removed'
                        else coalesce(
                            -- As text, which no partial index answers.
                            (select t.status::text
                               from taskq.task t
                              where t.campaign_id = p_campaign
                                and t.task_id = k.task_id
                                and t.status::text in ('failed', 'cancelled')),
                            (select n.status::text
                               from taskq.span_of(p_campaign, k.task_id) n
                              where n.status::text = 'cancelled'))
                    end as status
             offset 0
         ) e
         where e.status is not null
         order by k.ord;
end
$$;
