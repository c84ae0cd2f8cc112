-- next_failing(campaign): the first campaign after this one with a task that failed, or an attempt that ended in another
-- way than by a result; null: there is none. A part of failing_campaigns(); not for clients.
--
-- Index: attempt_unsuccessful, task_failed.
create or replace function taskq.next_failing(p_campaign bigint)
returns bigint
language plpgsql stable
as $$
begin
    return least(
        (select a.campaign_id
           from taskq.attempt a
          where a.campaign_id > p_campaign
            and a.outcome <> 'done'
          order by a.campaign_id, a.error_class, a.task_id
          limit 1),
        (select t.campaign_id
           from taskq.task t
          where t.campaign_id > p_campaign
            and t.status = 'failed'
          order by t.campaign_id, t.task_id
          limit 1));
end
$$;
