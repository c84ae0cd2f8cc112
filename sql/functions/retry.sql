-- retry(campaign, status, error_class, tasks, after, limit, dry_run): makes failed or cancelled tasks
-- waiting again, at most `limit` in a call, in the order of their ids, on any host. Failures and losses
-- count from zero again; the numbers of attempts continue.
--
-- status: failed or cancelled. error_class: only those whose last attempt ended with it; null: all.
-- tasks, after, moved, last: see cancel(). dry_run: count them, change and lock nothing.
-- Error TQ409: the campaign, or one above it, is cancelled.
--
-- Locks: the campaign's lock of seed_begin(), see cancel(); the rows of the tasks, in the order of
-- task_id; waits for them. Index: task_failed or task_pkey. Planned anew each time, see cancel().
-- @roles manager operator
-- @gateway manager, wakes
-- @repeat once
-- @plan custom by-key
create or replace function taskq.retry(
    p_campaign bigint,
    p_status taskq.task_status,
    p_error_class text,
    p_tasks bigint[],
    p_after bigint,
    p_limit integer,
    p_dry_run boolean default false,
    out moved integer,
    out last bigint
)
language plpgsql
as $$
declare
    v_rows tid[];
begin
    perform taskq.demand_read_committed();
    if p_status not in ('failed', 'cancelled') then
        raise exception 'only failed and cancelled tasks can be retried' using errcode = 'TQ400';
    end if;
    if not p_dry_run then
        perform pg_advisory_xact_lock(hashtext('taskq.seed'), hashint8(p_campaign));
    end if;
    if taskq.status_after(p_campaign, 'waiting') = 'cancelled' then
        raise exception 'cancelled: %; resume it before retrying', taskq.cancelled_by(p_campaign)
            using errcode = 'TQ409';
    end if;
    if p_dry_run then
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
        return;
    end if;
    if p_tasks is null then
        v_rows := array(
            select t.ctid
              from taskq.task t
             where t.campaign_id = p_campaign
               and t.task_id > p_after
               and t.status = p_status
               and (p_error_class is null or p_error_class = (
                       select a.error_class
                         from taskq.attempt a
                        where a.campaign_id = p_campaign
                          and a.task_id = t.task_id
                          and a.attempt = t.attempt))
             order by t.campaign_id, t.task_id
             limit p_limit
               for no key update);
    else
        v_rows := array(
            select t.row_id
              from (select distinct u.task_id from unnest(p_tasks) as u (task_id) order by 1) u
             cross join lateral (
                   select t.ctid as row_id
                     from taskq.task t
                    where t.campaign_id = p_campaign
                      and t.task_id = u.task_id
                      and t.status::text = p_status::text
                      and (p_error_class is null or p_error_class = (
                              select a.error_class
                                from taskq.attempt a
                               where a.campaign_id = p_campaign
                                 and a.task_id = t.task_id
                                 and a.attempt = t.attempt))
                      for no key update) t
             where u.task_id > p_after
             limit p_limit);
    end if;
    with changed as (
        update taskq.task t
           set status = 'waiting',
               failures = 0,
               losses = 0,
               avoids = null
         where t.ctid = any (v_rows)  -- see settle()
     returning t.task_id
    )
    select count(*), max(c.task_id) into moved, last from changed c;
    if moved > 0 then
        insert into taskq.delta (campaign_id, waiting, failed, cancelled)
        values (p_campaign, moved,
                case when p_status = 'failed' then -moved else 0 end,
                case when p_status = 'cancelled' then -moved else 0 end);
    end if;
end
$$;
