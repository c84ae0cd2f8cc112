-- session_of_lease(campaign, task, lease): the session whose rights count for a report on a task: the session of the
-- attempt under the lease; without one, that of the running attempt, else of the last one. A part of settle()
-- and settle_many(); not for clients.
--
-- Null: nobody has had the task yet, or there is none. Index: attempt_pkey, task_pkey, bundle_task; see
-- settle() for why nothing else can be used.
create or replace function taskq.session_of_lease(p_campaign bigint, p_task bigint, p_lease uuid)
returns bigint
language plpgsql stable
as $$
begin
    return coalesce(
        (select a.session_id
           from taskq.attempt a
          where a.campaign_id = p_campaign
            and a.task_id = p_task
            and a.lease_id = p_lease
          limit 1),
        (select t.session_id
           from taskq.task t
          where t.campaign_id = p_campaign
            and t.task_id = p_task),
        (select b.session_id from taskq.bundle_of(p_campaign, p_task) b),
        (select a.session_id
           from taskq.attempt a
          where a.campaign_id = p_campaign
            and a.task_id = p_task
          order by a.campaign_id desc, a.task_id desc, a.attempt desc
          limit 1));
end
$$;
