-- accepted_of(campaign, task): the accepted attempt of a task, if it is done. A part of functions that pin the
-- settings; not for clients.
--
-- A range, as in spec_of(), and inlined into the calling statement like it. Index: attempt_pkey.
create or replace function taskq.accepted_of(p_campaign bigint, p_task bigint)
returns setof taskq.attempt
language sql stable
as $$
    select a.*
      from taskq.attempt a
     where a.campaign_id = p_campaign
       and a.task_id >= p_task
       and a.task_id <= p_task
       and a.outcome = 'done'
     order by a.campaign_id, a.task_id
     limit 1
$$;
