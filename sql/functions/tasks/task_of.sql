-- task_of(campaign, task): the row of a task, if it has one, by one look-up for each; see session_of().
-- Index: task_pkey.
create or replace function taskq.task_of(p_campaign bigint, p_task bigint)
returns setof taskq.task
language sql stable
as $$
    select t.* from taskq.task t where t.campaign_id = p_campaign and t.task_id = p_task offset 0
$$;
