-- name_ahead(sessions, campaigns, tasks, leases): tasks that were leased ahead become those of the
-- sessions that have got them, one element of each array for a task: named by an agent's beat, or by
-- the gateway that handed them out, some seconds later. Of two sessions that name one, the first gets it.
--
-- Result: how many. Nothing happens to a task that is not the pool's any more, or whose session has
-- ended or does not serve the campaign.
--
-- Locks: the rows of the tasks, none that somebody else has locked. Index: task_pkey, by look-ups only;
-- see settle().
create or replace function taskq.name_ahead(
    p_sessions bigint[],
    p_campaigns bigint[],
    p_tasks bigint[],
    p_leases uuid[]
)
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
    v_named integer;
begin
    with named as materialized (
        select n.session_id, t.campaign_id, t.task_id
          from unnest(p_sessions, p_campaigns, p_tasks, p_leases)
               as n (session_id, campaign_id, task_id, lease_id)
         cross join lateral (
             select t.campaign_id, t.task_id
               from taskq.task t
              where t.campaign_id = n.campaign_id
                and t.task_id = n.task_id
                and t.lease_id = n.lease_id
                and t.session_id = 0
                and t.status::text = 'working'
                and taskq.covers(n.session_id, n.campaign_id)
                for no key update skip locked
         ) t
    )
    update taskq.task t
       set session_id = n.session_id
      from named n
     where t.campaign_id = n.campaign_id
       and t.task_id = n.task_id;
    get diagnostics v_named = row_count;
    return v_named;
end
$$;
