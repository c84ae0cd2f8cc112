-- retry(campaign, status, error_class, tasks, after, limit, dry_run): makes failed, cancelled, delayed or done
-- tasks waiting again, in the order of their ids, on any host. Failures and losses count from zero again; the numbers
-- of attempts continue. Who retries all that failed has repaired something: at the first of these
-- calls a window begins, see begin_window(); not for single tasks.
--
-- status: failed, cancelled, delayed or done; results of done ones are withdrawn, see withdraw(). error_class: only
--     those whose last attempt ended with it; null: all. Done ones have none.
-- tasks, after, limit, moved, last: see cancel(). dry_run: count `limit` of them, change and lock nothing.
-- Error TQ409: the campaign, or one above it, is cancelled or archived.
--
-- Locks: the campaign's lock of seed_begin(), see cancel(); spans of cancelled tasks, see unspan() and
-- move_spans(); the rows of the tasks, in the order of task_id, and that of pulse; waits for them. Index: task_failed or
-- task_pkey, span_pkey, spec_pkey, pulse_pkey; those of task_state(). Planned at each call, see cancel().
-- @roles manager operator
-- @gateway manager, wakes
-- @repeat once
-- @act retry
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
    -- Tasks in spans have had no attempt.
    v_spans constant boolean := p_status = 'cancelled' and p_error_class is null;
    v_rows tid[];
    v_in_spans integer := 0;
    v_upto bigint;
begin
    perform taskq.demand_read_committed();
    if p_status not in ('failed', 'cancelled', 'delayed', 'done') then
        raise exception 'only failed, cancelled, delayed and done tasks can be retried' using errcode = 'TQ400';
    elsif p_status = 'done' and p_error_class is not null then
        raise exception 'done tasks have no class of error' using errcode = 'TQ400';
    end if;
    if not p_dry_run then
        perform pg_advisory_xact_lock(hashtext('taskq.seed'), hashint8(p_campaign));
    end if;
    if taskq.status_after(p_campaign, 'waiting') = 'cancelled' then
        raise exception '%; resume it before retrying', taskq.cancelled_by(p_campaign)
            using errcode = 'TQ409';
    end if;
    if p_status = 'done' then
        select w.moved, w.last into moved, last
          from taskq.withdraw(p_campaign, p_tasks, p_after, p_limit, p_dry_run) w;
        if not p_dry_run then
            perform taskq.note_move(p_campaign, 'retry', moved);
        end if;
        return;
    end if;
    if p_dry_run and p_tasks is not null then
        select count(*) into moved
          from (select distinct u.task_id from unnest(p_tasks) as u (task_id)) u
         cross join lateral taskq.task_state(p_campaign, u.task_id) t
         where u.task_id > p_after
           and t.status = p_status
           and (p_error_class is null or p_error_class = (
                   select a.error_class
                     from taskq.attempt_of(p_campaign, u.task_id, t.attempt) a));
        return;
    elsif p_dry_run then
        select count(*), case when count(*) = p_limit then max(p.task_id) end
          into moved, last
          from (
              (select t.task_id
                 from taskq.task t
                where t.campaign_id = p_campaign
                  and t.task_id > p_after
                  and t.status = p_status
                  and (p_error_class is null or p_error_class = (
                          select a.error_class
                            from taskq.attempt_of(p_campaign, t.task_id, t.attempt) a))
                order by t.campaign_id, t.task_id
                limit p_limit)
               union all
              -- In the order of spans, see find_tasks().
              (select s.task_id
                 from (select n.next_id, n.last_id
                         from taskq.span n
                        where v_spans
                          and n.campaign_id = p_campaign
                          and n.first_id >= taskq.span_at(p_campaign, p_after)
                          and n.status::text = 'cancelled'
                        order by n.campaign_id, n.first_id
                       offset 0) n
                cross join lateral (
                      select s.task_id
                        from taskq.spec s
                       where s.campaign_id = p_campaign
                         and s.task_id >= greatest(n.next_id, p_after + 1)
                         and s.task_id <= n.last_id
                       order by s.campaign_id, s.task_id
                       limit p_limit) s
                limit p_limit)
               order by 1
               limit p_limit
          ) p;
        return;
    end if;
    if v_spans and p_tasks is null then
        select m.moved, m.upto
          into v_in_spans, v_upto
          from taskq.move_spans(p_campaign, p_status, 'waiting', p_after, p_limit) m;
    elsif v_spans then
        perform taskq.unspan(p_campaign, p_tasks, p_status);
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
                         from taskq.attempt_of(p_campaign, t.task_id, t.attempt) a))
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
                                from taskq.attempt_of(p_campaign, t.task_id, t.attempt) a))
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
    select v_in_spans + count(*), least(v_upto, case when count(*) = p_limit then max(c.task_id) end)
      into moved, last
      from changed c;
    if p_tasks is null and p_after = 0 and p_status in ('failed', 'delayed') then
        perform taskq.begin_window(p_campaign);
    end if;
    if moved > 0 then
        insert into taskq.delta (campaign_id, waiting, delayed, failed, cancelled)
        values (p_campaign, moved,
                case when p_status = 'delayed' then -moved else 0 end,
                case when p_status = 'failed' then -moved else 0 end,
                case when p_status = 'cancelled' then -moved else 0 end);
        perform taskq.note_move(p_campaign, 'retry', moved);
    end if;
end
$$;
