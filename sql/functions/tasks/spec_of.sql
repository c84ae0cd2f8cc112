-- spec_of(campaign, task): what a task was seeded with; no row: there is no such task. A part of functions that
-- pin the settings; not for clients.
--
-- The first row of a range in the order of the key can only be found by spec_pkey. If statistics say that the
-- campaign has one task, the planner may answer `task_id =` by the index over the campaign's keys, and goes through
-- all of them each time.
--
-- It is small enough to be inlined into the calling statement, as task_state() is. Index: spec_pkey.
create or replace function taskq.spec_of(p_campaign bigint, p_task bigint)
returns table (key text, payload jsonb, priority smallint)
language sql stable
as $$
    select s.key, s.payload, s.priority
      from taskq.spec s
     where s.campaign_id = p_campaign
       and s.task_id >= p_task
       and s.task_id <= p_task
     order by s.campaign_id, s.task_id
     limit 1
$$;
