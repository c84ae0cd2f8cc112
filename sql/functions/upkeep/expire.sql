-- expire(since): ends the sessions that have been silent for longer than their lease, and hands
-- their tasks out again. Called by the keeper.
--
-- since: look at sessions that ended after this instant, which lies before the last call; -infinity: all that
--     still have work. Result: how many attempts were lost.
--
-- Silence is measured by the database's clock, from the last heartbeat or serving_since(), whichever is
-- later: time in which the server was down does not count. Neither does an outage in which many agents
-- cannot reach the service, see brake().
--
-- A claim that read its session as open may commit just after the session's end, and locked tasks were skipped. So
-- each call checks all sessions that ended after `since`, not only those that expire now; and now and then all that
-- have work, see keep() and ended_with_work(). Tasks that a session left at a normal end are handed out again without
-- counting as lost. The same holds for tasks of an agent whose batch job is suspended.
--
-- Locks: the rows of silent sessions and of their tasks, skipping locked ones; the row of the brake,
-- when that changes. Index: session_open, session_ended, task_working, bundle_pkey.
-- @plan by-key
create or replace function taskq.expire(p_since timestamptz default '-infinity')
returns integer
language plpgsql
as $$
declare
    v_now constant timestamptz := clock_timestamp();
    v_counts_from constant timestamptz := taskq.brake();
    v_session bigint;
    v_expired boolean;
    v_left bigint[];
    v_handed_out integer;
    v_lost integer := 0;
begin
    if v_counts_from < 'infinity' then
        with silent as materialized (
            select s.session_id
              from taskq.session s
             where s.ended_at is null
               and greatest(taskq.believed(s.heartbeat_at, v_now), v_counts_from)
                   + make_interval(secs => s.lease_s) < v_now
             order by s.session_id
               for no key update skip locked
        )
        update taskq.session s
           set ended_at = v_now,
               expired = not taskq.is_suspended(s.agent)
          from silent e
         where s.session_id = e.session_id;
    end if;

    if p_since = '-infinity' then
        v_left := array(select taskq.ended_with_work());
    else
        v_left := array(
            select s.session_id
              from taskq.session s
             where s.ended_at > p_since
               and taskq.has_work(s.session_id));
    end if;
    for v_session, v_expired in
        select s.session_id, s.expired
          from taskq.session s
         where s.session_id = any (v_left)
         order by s.session_id
    loop
        v_handed_out := taskq.give_back(
            v_session,
            case when v_expired then 'lost' else 'released' end::taskq.attempt_outcome);
        if v_expired then
            v_lost := v_lost + v_handed_out;
        end if;
    end loop;
    return v_lost;
end
$$;
