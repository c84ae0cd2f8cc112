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
         cross join lateral taskq.end_without_result(p_campaign, k.task_id) as e (status)
         order by k.ord;
end
$$;
