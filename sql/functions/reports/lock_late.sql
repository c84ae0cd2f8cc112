-- lock_late(campaign, reports): locks the tasks of reports if one of them is on an attempt that was given up
-- as lost, or hedged: settle() then takes in some reports before the others, and would not lock their tasks
-- in order. A part of settle(); not for clients.
--
-- Locks: the bundles of the tasks, see unpack(), then the rows of the tasks, in the order of task_id.
-- Index: attempt_pkey, task_pkey.
create or replace function taskq.lock_late(p_campaign bigint, p_reports jsonb)
returns void
language plpgsql
as $$
begin
    perform
       from jsonb_to_recordset(p_reports) as r (task bigint, lease uuid)
       cross join lateral (
           select
             from taskq.attempt a
            where a.campaign_id = p_campaign
              and a.task_id = r.task
              and a.lease_id = r.lease
              and taskq.is_given_up(a.outcome, a.error_class)
           offset 0
       ) a
      limit 1;
    if found then
        perform taskq.unpack(
            p_campaign, array(
                select r.task from jsonb_to_recordset(p_reports) as r (task bigint)));
        perform
           from (select distinct r.task
                   from jsonb_to_recordset(p_reports) as r (task bigint)
                  order by r.task) r
          cross join lateral (
                select
                  from taskq.task t
                 where t.campaign_id = p_campaign
                   and t.task_id = r.task
                   for no key update) t;
    end if;
end
$$;
