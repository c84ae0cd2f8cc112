-- remove_tasks(campaign, after, limit): deletes the tasks of a campaign with their attempts and results, in the
-- order of their ids. Call it until `last` is null, then remove_campaign().
--
-- after: the `last` of the call before, 0 at first: so a call does not walk over what earlier calls deleted, which
--     stays as long as any snapshot in the cluster can see it.
-- limit: of tasks, and of attempts beyond those of the first task.
-- moved: how many were deleted; last: the id to go on after, null when there is no more.
--
-- It also deletes damaged ones: tasks without a spec, and attempts without a task. What it deletes is added to the stone
-- of the removal, see begin_removal(), and to `removed_sum`.
--
-- Error TQ409: the campaign is not cancelled.
--
-- Locks: spans and bundles, as cancel() does; the rows of the tasks; the rows of `summed`, of the stone and of `removed_sum`. Index: spec_pkey, task_pkey, attempt_pkey,
-- span_pkey, bundle_task, output_pkey, withdrawal_pkey,
-- removed_sum_pkey, and those of stone_of().
-- @roles manager operator
-- @gateway submitter
-- @repeat once
-- @act no: begin_removal() has noted it
-- @plan generic by-key
create or replace function taskq.remove_tasks(
    p_campaign bigint, p_after bigint, p_limit integer, out moved integer, out last bigint)
language plpgsql
as $$
declare
    v_first bigint;
    v_upto bigint;
    v_summed timestamptz;
    v_ends taskq.ends[];
    v_of_spans bigint;
    v_cancelled bigint;
    v_failed bigint;
    v_done bigint;
    v_failures bigint;
begin
    if taskq.campaign_state(p_campaign) <> 'cancelled' then
        raise exception 'campaign % is not cancelled: cancel it before its tasks are removed', p_campaign
            using errcode = 'TQ409';
    end if;
    -- The keeper removes them.
    update taskq.result_index i
       set dropped = true
     where i.campaign_id = p_campaign
       and not i.dropped;
    last := least(
        (select s.task_id
           from taskq.spec s
          where s.campaign_id = p_campaign
            and s.task_id > p_after
          order by s.campaign_id, s.task_id
         offset p_limit - 1
          limit 1),
        (select t.task_id
           from taskq.task t
          where t.campaign_id = p_campaign
            and t.task_id > p_after
          order by t.campaign_id, t.task_id
         offset p_limit - 1
          limit 1),
        (select a.task_id
           from taskq.attempt a
          where a.campaign_id = p_campaign
            and a.task_id > p_after
          order by a.campaign_id, a.task_id
         offset p_limit - 1
          limit 1));
    v_upto := coalesce(last, 9223372036854775806);

    -- The call before has left the rest of a span that went on above its last task.
    perform pg_advisory_xact_lock(hashtext('taskq.unspan'), hashint8(p_campaign));
    select n.first_id, least(p_after, n.next_id - 1)
      into v_first, p_after
      from (values (p_after)) as given (id)
      left join lateral (
           select n.first_id, n.next_id
             from taskq.span n
            where n.campaign_id = p_campaign
              and n.first_id <= given.id
            order by n.campaign_id desc, n.first_id desc
            limit 1) n on true;
    v_first := coalesce(v_first, p_after + 1);
    perform
       from taskq.span s
      where s.campaign_id = p_campaign
        and s.first_id >= v_first
        and s.first_id <= v_upto
      order by s.campaign_id, s.first_id
        for no key update;
    -- The ids of a bundle are less than 65536 apart.
    perform taskq.unpack(
        p_campaign,
        array(select t.task_id
                from taskq.bundle b
               cross join lateral unnest(b.tasks) as t (task_id)
               where b.campaign_id = p_campaign
                 and b.first_id > p_after - 65536
                 and b.first_id <= v_upto));

    insert into taskq.delta (campaign_id, waiting, cancelled)
    select p_campaign,
           -coalesce(sum(n.tasks) filter (where s.status = 'waiting'), 0),
           -coalesce(sum(n.tasks) filter (where s.status <> 'waiting'), 0)
      from taskq.span s
     cross join lateral (
           select count(*) as tasks
             from (
                 select
                   from taskq.spec p
                  where p.campaign_id = p_campaign
                    and p.task_id >= s.next_id
                    and p.task_id <= least(s.last_id, v_upto)
                  order by p.campaign_id, p.task_id
             ) p
     ) n
     where s.campaign_id = p_campaign
       and s.first_id >= v_first
       and s.first_id <= v_upto
    having sum(n.tasks) > 0
 returning -waiting - cancelled into v_of_spans;
    delete from taskq.span s
     where s.campaign_id = p_campaign
       and s.first_id >= v_first
       and s.first_id <= v_upto
       and s.last_id <= v_upto;
    update taskq.span s
       set next_id = v_upto + 1
     where s.campaign_id = p_campaign
       and s.first_id >= v_first
       and s.first_id <= v_upto
       and s.next_id <= v_upto;

    with gone as (
        delete from taskq.task t
         where t.campaign_id = p_campaign
           and t.task_id > p_after
           and t.task_id <= v_upto
     returning t.status
    )
    insert into taskq.delta (campaign_id, waiting, delayed, working, failed, cancelled)
    select p_campaign,
           -count(*) filter (where g.status = 'waiting'),
           -count(*) filter (where g.status = 'delayed'),
           -count(*) filter (where g.status = 'working'),
           -count(*) filter (where g.status = 'failed'),
           -count(*) filter (where g.status = 'cancelled')
      from gone g
    having count(*) > 0
 returning -failed, -waiting - delayed - working - cancelled into v_failed, v_cancelled;
    -- In a snapshot of its own, which has what was reported during the wait for the tasks.
    select s.until into v_summed from taskq.summed s where s.only_one for share;
    with gone as materialized (
        delete from taskq.attempt a
         where a.campaign_id = p_campaign
           and a.task_id > p_after
           and a.task_id <= v_upto
     returning a as attempt, a.ended_at, a.outcome, a.error_class
    ), counted as (
        insert into taskq.delta (campaign_id, done, failures, losses)
        select p_campaign,
               -count(*) filter (where g.outcome = 'done'),
               -count(*) filter (where g.outcome = 'failed'),
               -count(*) filter (where taskq.is_loss(g.outcome, g.error_class))
          from gone g
        having count(*) > 0
     returning -done as done, -failures - losses as failures
    )
    select array_agg(taskq.end_of_attempt(g.attempt, 1)),
           coalesce((select c.done from counted c), 0), coalesce((select c.failures from counted c), 0)
      into v_ends, v_done, v_failures
      from gone g
     where g.ended_at >= v_summed;
    if v_ends is not null then
        perform taskq.add_ends(v_ends);
    end if;
    perform taskq.part_usage(p_campaign);
    delete from taskq.withdrawal w
     where w.campaign_id = p_campaign
       and w.task_id > p_after
       and w.task_id <= v_upto;
    -- The keeper removes them, and their content.
    update taskq.output o
       set decided = false
     where o.campaign_id = p_campaign
       and o.task_id > p_after
       and o.task_id <= v_upto
       and o.decided;
    -- In the order of spec_pkey, the only index for that; by ctid, since a spec never moves.
    delete from taskq.spec s
     where s.ctid = any (array(
               select s.ctid
                 from taskq.spec s
                where s.campaign_id = p_campaign
                  and s.task_id > p_after
                  and s.task_id <= v_upto
                order by s.campaign_id, s.task_id));
    get diagnostics moved = row_count;
    v_failed := coalesce(v_failed, 0);
    v_cancelled := coalesce(v_cancelled, 0) + coalesce(v_of_spans, 0);
    if v_done + v_failed + v_failures > 0 then
        insert into taskq.removed_sum as r (campaign_id, done, failed, failures)
        values (p_campaign, v_done, v_failed, v_failures)
            on conflict (campaign_id) do update
           set done = r.done + excluded.done,
               failed = r.failed + excluded.failed,
               failures = r.failures + excluded.failures;
    end if;
    update taskq.stone s
       set done = s.done + v_done,
           failed = s.failed + v_failed,
           cancelled = s.cancelled + v_cancelled
     where s.campaign_id = taskq.stone_of(p_campaign)
       and s.removed_at is null;
end
$$;
