-- attempt_of(campaign, task, attempt): the row of an ended attempt, by one look-up for each; see session_of().
-- Index: attempt_pkey.
create or replace function taskq.attempt_of(p_campaign bigint, p_task bigint, p_attempt integer)
returns setof taskq.attempt
language sql stable
as $$
    select a.*
      from taskq.attempt a
     where a.campaign_id = p_campaign
       and a.task_id = p_task
       and a.attempt = p_attempt
    offset 0
$$;
