-- give_back(session, outcome): ends all attempts that a session still has, as lost or released.
-- A part of end_session(), expire(), recover() and revoke_token(), which pin the settings; not for
-- clients.
--
-- A lost attempt counts as a loss. The task is failed, as poison, when its agents were lost on the
-- campaign's max_lost_nodes different nodes since somebody last retried it; and else after max_losses.
-- The last attempt's error then lists the losses. Tasks that are locked at this moment are skipped: a
-- report on them is in progress.
-- Result: how many attempts ended.
--
-- Locks: the bundles of the session, skipping locked ones; the rows of the tasks, likewise.
-- Index: bundle_pkey, task_working, attempt_pkey.
create or replace function taskq.give_back(p_session bigint, p_outcome taskq.attempt_outcome)
returns integer
language plpgsql
as $$
declare
    v_now constant timestamptz := clock_timestamp();
    v_moved integer;
    v_packed record;
begin
    for v_packed in
        select b.campaign_id, array_agg(t.task_id) as tasks
          from taskq.bundle b
         cross join lateral unnest(b.tasks) as t (task_id)
         where b.session_id = p_session
         group by b.campaign_id
         order by b.campaign_id
    loop
        perform taskq.unpack(v_packed.campaign_id, v_packed.tasks, null, false);
    end loop;
    with held as materialized (
        select t.campaign_id, t.task_id, t.attempt, t.lease_id, t.session_id, t.claimed_at,
               t.losses,
               -- Such as damage leaves behind it: it must not stop all upkeep, and was no attempt.
               num_nulls(t.lease_id, t.claimed_at) = 0 as attempted
          from taskq.task t
         where t.session_id = p_session
           and t.status = 'working'
         order by t.campaign_id, t.task_id
           for no key update skip locked
    ), judged as materialized (
        select h.*, s.seen,
               s.nodes >= c.max_lost_nodes as poison,
               coalesce(s.nodes >= c.max_lost_nodes or h.losses + 1 >= c.max_losses, false)
               and p_outcome = 'lost' and h.attempted as failed
          from held h
          join taskq.campaign c on c.campaign_id = h.campaign_id
          left join lateral (
              select l.nodes, l.seen
                from taskq.losses_seen(
                    h.campaign_id, h.task_id, h.attempt, h.session_id, h.losses) l
              offset 0
          ) s on p_outcome = 'lost' and h.losses + 1 >= least(c.max_losses, c.max_lost_nodes)
    ), moved as (
        update taskq.task t
           set status = case
                   when j.failed then 'failed'
                   else taskq.status_after(t.campaign_id, 'waiting')
               end,
               attempt = t.attempt - (not j.attempted)::integer,
               losses = t.losses + (p_outcome = 'lost' and j.attempted)::integer
          from judged j
         where t.campaign_id = j.campaign_id
           and t.task_id = j.task_id
     returning j.*, t.status
    ), recorded as (
        -- Of what moved, not of what is held: a record of a task that stays would be written again.
        insert into taskq.attempt (
               campaign_id, task_id, attempt, lease_id, session_id, claimed_at, ended_at, outcome,
               error_class, error)
        select m.campaign_id, m.task_id, m.attempt, m.lease_id, m.session_id, m.claimed_at, v_now,
               p_outcome,
               case when m.poison then 'poison' when p_outcome = 'lost' then 'agent-lost' end,
               case when m.failed then m.seen end
          from moved m
         where m.attempted
            -- Such as a restore of some tables only leaves behind: that must not stop it either.
            on conflict (campaign_id, task_id, attempt) do nothing
    ), counted as (
        insert into taskq.delta (campaign_id, waiting, working, failed, cancelled, losses)
        select m.campaign_id,
               count(*) filter (where m.status = 'waiting'),
               -count(*),
               count(*) filter (where m.status = 'failed'),
               count(*) filter (where m.status = 'cancelled'),
               case when p_outcome = 'lost' then count(*) filter (where m.attempted) else 0 end
          from moved m
         group by m.campaign_id
    )
    select count(*) into v_moved from moved;
    return v_moved;
end
$$;
