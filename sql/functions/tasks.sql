-- tasks(campaign, status, after, limit): a page of the tasks of a campaign, in the order of their ids.
--
-- status: null: all. after: the last id of the page before, 0 at first.
-- Result: `limit` rows at most; none: there are no more. due_at: of a delayed task. claimed_at, host:
--     of the attempt that runs, if one does.
--
-- It tells readers no lease. Index: task_failed for the failed, else task_pkey: of one status all tasks of
-- the campaign are gone through.
--
-- One plan, whatever statistics say, which do not know of a campaign seeded since they were made: the
-- page is cut first, and what belongs to each task is found by key. A range in the order of the key,
-- of which one row is wanted, can only be found there; for `task_id =` the planner takes an index over
-- the campaign's keys just as well, where it holds the campaign for one of a single task, and goes
-- through all of it each time.
create or replace function taskq.tasks(
    p_campaign bigint,
    p_status taskq.task_status,
    p_after bigint,
    p_limit integer
)
returns table (
    task_id bigint,
    key text,
    status taskq.task_status,
    priority smallint,
    attempt integer,
    failures smallint,
    losses smallint,
    due_at timestamptz,
    claimed_at timestamptz,
    host text,
    payload jsonb
)
language plpgsql stable
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
begin
    return query
        select p.task_id, s.key, p.status, p.priority, p.attempt, p.failures, p.losses,
               case when p.status = 'delayed' then p.due_at end,
               case when p.status = 'working' then p.claimed_at end,
               n.host,
               s.payload
          from (
              (select t.task_id, t.status, t.priority, t.attempt, t.failures, t.losses, t.due_at,
                      t.claimed_at, t.session_id
                 from taskq.task t
                where p_status is distinct from 'failed'
                  and t.campaign_id = p_campaign
                  and t.task_id > p_after
                  and (p_status is null or t.status = p_status)
                order by t.campaign_id, t.task_id
                limit p_limit)
               union all
              (select t.task_id, t.status, t.priority, t.attempt, t.failures, t.losses, t.due_at,
                      t.claimed_at, t.session_id
                 from taskq.task t
                where p_status = 'failed'
                  and t.campaign_id = p_campaign
                  and t.task_id > p_after
                  and t.status = 'failed'
                order by t.campaign_id, t.task_id
                limit p_limit)
          ) p
         cross join lateral (
             select s.key, s.payload
               from taskq.spec s
              where s.campaign_id = p_campaign
                and s.task_id >= p.task_id
                and s.task_id <= p.task_id
              order by s.campaign_id, s.task_id
              limit 1
         ) s
          left join lateral (
             select n.host
               from taskq.session n
              where n.session_id = p.session_id
                and p.status = 'working'
             offset 0
         ) n on true
         order by p.task_id;
end
$$;
