-- owner(campaign, task, lease): the session whose rights count for a report on a task: the session of the
-- attempt under the lease; without one, that of the running attempt, else of the last one. A part of settle()
-- and settle_many(); not for clients.
--
-- Null: nobody has had the task yet, or there is none. Index: attempt_pkey, task_pkey, bundle_task; see
-- settle() for why nothing else can be used.
create or replace function taskq.owner(p_campaign bigint, p_task bigint, p_lease uuid)
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
        (select b.session_id
           from (
               select b.session_id, b.tasks
                 from taskq.bundle b
                where b.campaign_id = p_campaign
                  and b.first_id <= p_task
                  and b.first_id > p_task - 65536
                order by b.campaign_id desc, b.first_id desc
                limit 1
           ) b
          where p_task = any (b.tasks)),
        (select a.session_id
           from taskq.attempt a
          where a.campaign_id = p_campaign
            and a.task_id = p_task
          order by a.campaign_id desc, a.task_id desc, a.attempt desc
          limit 1));
end
$$;
