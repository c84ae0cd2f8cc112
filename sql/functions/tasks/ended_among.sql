-- ended_among(campaigns, tasks): which of some tasks have ended, with or without a result.
--
-- campaigns, tasks: of equal length: the campaign of each task, and the task.
--
-- Plans: see tasks(). Index: attempt_pkey, task_pkey, span_pkey, spec_pkey.
-- @roles gateway
-- @plan generic by-key
create or replace function taskq.ended_among(p_campaigns bigint[], p_tasks bigint[])
returns table (campaign_id bigint, task_id bigint)
language plpgsql stable
as $$
begin
    return query
        select k.campaign_id, k.task_id
          from unnest(p_campaigns, p_tasks) as k (campaign_id, task_id)
         where exists (select from taskq.accepted_of(k.campaign_id, k.task_id))
            or exists (select from taskq.end_without_result(k.campaign_id, k.task_id));
end
$$;
