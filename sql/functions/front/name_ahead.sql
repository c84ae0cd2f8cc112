-- name_ahead(sessions, campaigns, tasks, leases): assigns tasks that were leased ahead to the sessions
-- that have claimed them, one element of each array for a task. Called for the heartbeats of agents, and
-- by the gateway that handed the tasks out, some seconds later. If two sessions name one task, the first
-- wins.
--
-- Result: how many. Tasks that are no longer the pool's, or whose session has ended or does not serve
-- the campaign, are left alone.
--
-- Locks: the rows of the tasks, skipping locked ones. Index: task_pkey, by look-ups only;
-- see settle().
-- @roles gateway
-- @plan generic by-key
create or replace function taskq.name_ahead(
    p_sessions bigint[],
    p_campaigns bigint[],
    p_tasks bigint[],
    p_leases uuid[]
)
returns integer
language plpgsql
as $$
declare
    v_named integer := 0;
    v_one record;
begin
    -- Campaign by campaign, see beat(); by ctid, see settle().
    for v_one in
        select d.campaign_id, array_agg(d.row_id) as rows, array_agg(d.session_id) as sessions
          from (
              select distinct on (t.campaign_id, t.task_id)
                     t.campaign_id, t.row_id, n.session_id
                from unnest(p_sessions, p_campaigns, p_tasks, p_leases)
                     with ordinality as n (session_id, campaign_id, task_id, lease_id, ord)
               cross join lateral (
                   select t.campaign_id, t.task_id, t.ctid as row_id
                     from taskq.task t
                    where t.campaign_id = n.campaign_id
                      and t.task_id = n.task_id
                      and t.lease_id = n.lease_id
                      and t.session_id = 0
                      and t.status::text = 'working'
                      and taskq.session_serves(n.session_id, n.campaign_id)
                      for no key update skip locked
               ) t
               order by t.campaign_id, t.task_id, n.ord
          ) d
         group by d.campaign_id
         order by d.campaign_id
    loop
        update taskq.task t
           set session_id = n.session_id
          from unnest(v_one.rows, v_one.sessions) as n (row_id, session_id)
         where t.ctid = n.row_id;
        v_named := v_named + cardinality(v_one.rows);
    end loop;
    return v_named;
end
$$;
