-- give_back(session, outcome): ends all attempts that a session still has, as lost or released.
-- A part of end_session(), expire(), recover() and revoke_token(), which pin the settings; not for
-- clients.
--
-- A lost attempt counts as a loss. A task fails as poison when its agents were lost on max_lost_hosts (of the
-- campaign) different hosts since the last retry; else after max_losses. It fails only if no other task of
-- the session was lost as often: of tasks lost together one may be guilty, and they are tried again apart,
-- see pick_again(), until one stands out. The last attempt's error then lists the losses. A task that stands
-- out and was lost before is kept off this host, so that it is given up on different ones where there are
-- others. A first loss keeps no task off: a node that dies takes all its tasks with it.
-- Where many tasks have one start, only those count that had begun, if their program says so (`claims` of the
-- session); else all, unless the end of the batch job explains the loss. The others are released, as `not-begun`: they
-- say nothing. If nobody is to blame although programs say what has begun, the guilty one had begun since the last
-- heartbeat; those count that it spared the last time, too, so that it is found.
--
-- Tasks that are locked at this moment are skipped: a report on them is in progress.
-- Other attempts of an agent whose batch job has ended get the class of that end, see note_pilot().
-- Result: how many attempts ended.
--
-- Locks: the bundles of the session and the rows of the tasks, skipping locked ones.
-- Index: bundle_pkey, task_working, task_pkey, attempt_pkey.
create or replace function taskq.give_back(p_session bigint, p_outcome taskq.attempt_outcome)
returns integer
language plpgsql
as $$
declare
    v_now timestamptz;
    v_moved integer := 0;
    v_one record;
    v_back taskq.task_status;
    v_max_losses integer;
    v_max_hosts integer;
    v_losses smallint[];
    v_why text;
    v_class text;
    v_claims jsonb;
    v_spared bigint[];
    v_slots constant integer := (
        select s.slots from taskq.session s where s.session_id = p_session);
begin
    for v_one in
        select b.campaign_id, array_agg(t.task_id) as tasks
          from taskq.bundle b
         cross join lateral unnest(b.tasks) as t (task_id)
         where b.session_id = p_session
         group by b.campaign_id
         order by b.campaign_id
    loop
        perform taskq.unpack(v_one.campaign_id, v_one.tasks, null, false);
    end loop;

    -- What the batch system reported about the agent's job, if anything.
    select s.left_why, s.end_class, s.claims into v_why, v_class, v_claims
      from taskq.session s
     where s.session_id = p_session
       and (p_outcome = 'lost' or s.end_class is not null);
    if p_outcome = 'lost' then
        v_spared := array(select taskq.spared(p_session, v_claims, v_class));
        v_losses := array(
            select t.losses
              from taskq.task t
             where t.session_id = p_session
               and t.status = 'working'
               and t.task_id not in (select unnest(v_spared))
             order by t.losses desc
             limit 2);
    end if;
    -- Campaign by campaign, see beat(); by ctid, see settle().
    for v_one in
        select h.campaign_id, array_agg(h.row_id) as rows
          from (
              select t.campaign_id, t.ctid as row_id
                from taskq.task t
               where t.session_id = p_session
                 and t.status = 'working'
                 for no key update skip locked
          ) h
         group by h.campaign_id
         order by h.campaign_id
    loop
        select c.max_losses, c.max_lost_hosts into v_max_losses, v_max_hosts
          from taskq.campaign c
         where c.campaign_id = v_one.campaign_id;
        -- Rows of a campaign that is gone, left by damage.
        continue when not found;
        v_back := taskq.status_after(v_one.campaign_id, 'waiting');
        -- After the locks: what the session claimed at the last moment ends after it began.
        v_now := clock_timestamp();
        with held as materialized (
            select t.*,
                   -- Left by damage: it must not stop all upkeep, and was not an attempt.
                   num_nulls(t.lease_id, t.claimed_at) = 0 as attempted,
                   p_outcome = 'lost' and t.task_id not in (select unnest(v_spared)) as lost
              from taskq.task t
             where t.ctid = any (v_one.rows)
        ), judged as materialized (
            select h.*, s.seen,
                   s.hosts >= v_max_hosts as poison,
                   coalesce(s.hosts >= v_max_hosts or h.losses + 1 >= v_max_losses, false)
                   and s.seen is not null and h.attempted as failed
              from held h
              left join lateral (
                  select l.hosts, l.seen
                    from taskq.losses_seen(
                        v_one.campaign_id, h.task_id, h.attempt, p_session, h.losses) l
                  offset 0
              ) s on h.lost
                 and h.losses + 1 >= least(v_max_losses, v_max_hosts)
                 and h.losses > coalesce(v_losses[2], -1)
        ), moved as (
            update taskq.task t
               set status = case when t.task_id = any (array(
                           select j.task_id from judged j where j.failed))
                       then 'failed' else v_back end,
                   attempt = t.attempt - (num_nulls(t.lease_id, t.claimed_at) > 0)::integer,
                   losses = t.losses
                       + (p_outcome = 'lost'
                          and t.task_id not in (select unnest(v_spared))
                          and num_nulls(t.lease_id, t.claimed_at) = 0)::integer,
                   -- After its first loss alone, see above.
                   avoids = case when p_outcome <> 'lost' or t.task_id in (select unnest(v_spared)) then t.avoids
                                 when t.losses > greatest(v_losses[2], 0)
                                 then taskq.avoiding(t.avoids, p_session)
                                 else coalesce(t.avoids, '{}') end,
                   due_at = case when p_outcome = 'lost' and t.task_id not in (select unnest(v_spared))
                                      and t.losses > greatest(v_losses[2], 0)
                                 then v_now else t.due_at end
             where t.ctid = any (v_one.rows)
        ), recorded as (
            insert into taskq.attempt (
                   campaign_id, task_id, attempt, lease_id, session_id, claimed_at, ended_at,
                   outcome, error_class, error, phases)
            select v_one.campaign_id, j.task_id, j.attempt, j.lease_id, p_session, j.claimed_at,
                   v_now, case when p_outcome = 'lost' and not j.lost then 'released' else p_outcome end,
                   case when j.poison then 'poison'
                        when p_outcome = 'lost' and not j.lost then 'not-begun'
                        else coalesce(v_class, case when j.lost then 'agent-lost' end) end,
                   case when j.failed then concat_ws('; ', j.seen, v_why) else v_why end,
                   case when p_outcome = 'lost' and not j.lost then '{"run_s": 0}'
                        else taskq.share_s(count(*) over (partition by j.lost), v_slots, j.claimed_at, v_now) end
              from judged j
             where j.attempted
                -- A restore of only some tables can leave this behind; it must not stop the upkeep either.
                on conflict (campaign_id, task_id, attempt) do nothing
        )
        insert into taskq.delta (campaign_id, waiting, working, failed, cancelled, losses)
        select v_one.campaign_id,
               case when v_back = 'waiting' then count(*) filter (where not j.failed) else 0 end,
               -count(*),
               count(*) filter (where j.failed),
               case when v_back = 'cancelled' then count(*) filter (where not j.failed) else 0 end,
               count(*) filter (where j.lost and j.attempted)
          from judged j;
        v_moved := v_moved + cardinality(v_one.rows);
    end loop;
    return v_moved;
end
$$;
