-- remove_tasks(campaign, limit): deletes the tasks of a campaign with their attempts and results, at
-- most `limit` in a call. Call it until it returns 0, then remove_campaign().
--
-- It also deletes damaged ones: tasks without a spec, and attempts without a task.
--
-- Result: how many. Error TQ409: the campaign is not cancelled.
--
-- Locks: spans and bundles, as cancel() does; the rows of the tasks. Index: spec_pkey, task_pkey, attempt_pkey,
-- output_pkey.
-- @roles manager operator
-- @gateway submitter
-- @repeat once
-- @plan generic by-key
create or replace function taskq.remove_tasks(p_campaign bigint, p_limit integer)
returns integer
language plpgsql
as $$
declare
    v_tasks bigint[];
    -- Servers before 17 might go through all of the campaign to find several ids.
    v_first bigint;
    v_last bigint;
begin
    if taskq.status_after(p_campaign, 'waiting') <> 'cancelled' then
        raise exception 'campaign % is not cancelled', p_campaign using errcode = 'TQ409';
    end if;
    -- The keeper removes them.
    update taskq.result_index i
       set dropped = true
     where i.campaign_id = p_campaign
       and not i.dropped;
    perform taskq.unspan(p_campaign, null, 0, p_limit);
    perform taskq.unpack(
        p_campaign,
        array(select t.task_id
                from taskq.bundle b
               cross join lateral unnest(b.tasks) as t (task_id)
               where b.campaign_id = p_campaign));
    -- The second and the third find something where rows are missing, and are not run before the
    -- first finds nothing.
    v_tasks := coalesce(
        (select array_agg(p.task_id)
           from (
               select s.task_id from taskq.spec s
                where s.campaign_id = p_campaign
                order by s.campaign_id, s.task_id
                limit p_limit
           ) p),
        (select array_agg(p.task_id)
           from (
               select t.task_id from taskq.task t
                where t.campaign_id = p_campaign
                order by t.campaign_id, t.task_id
                limit p_limit
           ) p),
        (select array_agg(distinct p.task_id)
           from (
               select a.task_id from taskq.attempt a
                where a.campaign_id = p_campaign
                order by a.campaign_id, a.task_id
                limit p_limit
           ) p));
    if v_tasks is null then
        return 0;
    end if;
    select min(k.task_id), max(k.task_id) into v_first, v_last from unnest(v_tasks) as k (task_id);
    with gone as (
        delete from taskq.task t
         where t.campaign_id = p_campaign
           and t.task_id between v_first and v_last
           and t.task_id = any (v_tasks)
     returning t.status
    )
    insert into taskq.delta (campaign_id, waiting, delayed, working, failed, cancelled)
    select p_campaign,
           -count(*) filter (where g.status = 'waiting'),
           -count(*) filter (where g.status = 'delayed'),
           -count(*) filter (where g.status = 'working'),
           -count(*) filter (where g.status = 'failed'),
           -count(*) filter (where g.status = 'cancelled')
      from gone g;
    -- In a snapshot of its own: with what was reported while the tasks were waited for.
    with gone as (
        delete from taskq.attempt a
         where a.campaign_id = p_campaign
           and a.task_id between v_first and v_last
           and a.task_id = any (v_tasks)
     returning a.outcome, a.error_class
    )
    insert into taskq.delta (campaign_id, done, failures, losses)
    select p_campaign,
           -count(*) filter (where g.outcome = 'done'),
           -count(*) filter (where g.outcome = 'failed'),
           -- A success of such a class was lost, and salvaged.
           -count(*) filter (where g.outcome = 'lost'
                                or g.outcome = 'done'
                               and g.error_class <> 'hedged')
      from gone g
    having count(*) > 0;
    -- The keeper removes them, and their content.
    update taskq.output o
       set decided = false
     where o.campaign_id = p_campaign
       and o.task_id between v_first and v_last
       and o.task_id = any (v_tasks)
       and o.decided;
    -- Each found as tasks() says, and none of them ever changes its place.
    delete from taskq.spec s
     where s.ctid = any (array(
               select f.ctid
                 from unnest(v_tasks) as k (task_id)
                cross join lateral (
                    select s.ctid
                      from taskq.spec s
                     where s.campaign_id = p_campaign
                       and s.task_id >= k.task_id
                       and s.task_id <= k.task_id
                     order by s.campaign_id, s.task_id
                     limit 1
                ) f));
    return cardinality(v_tasks);
end
$$;
