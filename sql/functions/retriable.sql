-- retriable(campaign, status, error_class, tasks, after, limit): counts the tasks that retry() would make
-- waiting again, at most `limit` in a call, in the order of their ids; it changes and locks nothing.
--
-- status, error_class, tasks, after, moved, last: see retry(), whose errors it raises.
-- Index: task_failed or task_pkey. Planned anew each time, see cancel().
-- @roles manager operator
-- @gateway manager
-- @repeat safe
-- @plan custom by-key
create or replace function taskq.retriable(
    p_campaign bigint,
    p_status taskq.task_status,
    p_error_class text,
    p_tasks bigint[],
    p_after bigint,
    p_limit integer,
    out moved integer,
    out last bigint
)
language plpgsql stable
as $$
begin
    if p_status not in ('failed', 'cancelled') then
        raise exception 'only failed and cancelled tasks can be retried' using errcode = 'TQ400';
    end if;
    if taskq.status_after(p_campaign, 'waiting') = 'cancelled' then
        raise exception 'cancelled: %; resume it before retrying', taskq.cancelled_by(p_campaign)
            using errcode = 'TQ409';
    end if;
    select count(*), max(p.task_id)
      into moved, last
      from (
          select t.task_id
            from taskq.task t
           where t.campaign_id = p_campaign
             and t.task_id > p_after
             and t.status = p_status
             and (p_tasks is null or t.task_id = any (p_tasks))
             and (p_error_class is null or p_error_class = (
                     select a.error_class
                       from taskq.attempt a
                      where a.campaign_id = p_campaign
                        and a.task_id = t.task_id
                        and a.attempt = t.attempt))
           order by t.campaign_id, t.task_id
           limit p_limit
      ) p;
end
$$;
