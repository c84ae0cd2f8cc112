-- heartbeat(session, held, pending, drawn): the session lives on; squares what it holds.
--
-- held: JSON array of [campaign, task, lease], all attempts that the agent has in hand; null: only
--     live on. pending: lease ids of claims whose answer the agent still waits for. drawn: the newest
--     lease id that the agent had drawn when it wrote this down; its lease ids rise.
-- Result: those of `held` whose lease is void: expired, cancelled, handed on. The agent stops them.
-- Error TQ410: the session has ended.
--
-- An attempt that is the session's, is in neither list, and whose lease is not younger than `drawn`
-- was claimed by an answer that got lost and will not be asked for again. It goes back to waiting and
-- does not count as an attempt. Of younger leases the beat says nothing: their claims may have
-- overtaken it on the way.
--
-- Locks: the session's row; the rows of tasks that go back. Index: session_pkey, task_working.
create or replace function taskq.heartbeat(
    p_session bigint,
    p_held jsonb default null,
    p_pending uuid[] default '{}',
    p_drawn uuid default null
)
returns table (campaign_id bigint, task_id bigint, lease_id uuid)
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
    v_now constant timestamptz := clock_timestamp();
begin
    update taskq.session s
       set heartbeat_at = v_now
     where s.session_id = p_session
       and s.ended_at is null;
    if not found then
        raise exception 'session % has ended; open another', p_session using errcode = 'TQ410';
    end if;
    if p_held is null then
        return;
    end if;

    with unclaimed as materialized (
        select t.campaign_id, t.task_id
          from taskq.task t
         where t.session_id = p_session
           and t.status = 'working'
           and t.lease_id <= p_drawn
           and t.lease_id <> all (p_pending)
           and (t.campaign_id, t.task_id, t.lease_id) not in (
                   select (h ->> 0)::bigint, (h ->> 1)::bigint, (h ->> 2)::uuid
                     from jsonb_array_elements(p_held) h)
         order by t.campaign_id, t.task_id
           for no key update skip locked
    ), moved as (
        update taskq.task t
           set status = taskq.status_after(t.campaign_id, 'waiting'),
               attempt = t.attempt - 1
          from unclaimed u
         where t.campaign_id = u.campaign_id
           and t.task_id = u.task_id
     returning t.campaign_id, t.status
    )
    insert into taskq.delta (campaign_id, waiting, working, cancelled)
    select m.campaign_id, count(*) filter (where m.status = 'waiting'), -count(*),
           count(*) filter (where m.status = 'cancelled')
      from moved m
     group by m.campaign_id;

    return query
        select h.campaign_id, h.task_id, h.lease_id
          from (
              select (e ->> 0)::bigint as campaign_id, (e ->> 1)::bigint as task_id,
                     (e ->> 2)::uuid as lease_id
                from jsonb_array_elements(p_held) e
          ) h
         -- Neither a join nor another index than the key, whatever the statistics say.
         where (select count(*)
                  from taskq.task t
                 where t.campaign_id = h.campaign_id
                   and t.task_id = h.task_id
                   and t.lease_id = h.lease_id
                   and t.status::text = 'working') = 0;
end
$$;
