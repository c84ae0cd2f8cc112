-- brake(): decides whether silent agents mean an outage of the service, and from when silence counts.
-- A part of expire() and recover(), which pin the settings; not for clients.
--
-- Result: silence is measured from the last heartbeat or from this instant, whichever is later;
-- infinity: no session expires now.
--
-- Agents fail one by one. When many fall silent at the same time, they most likely go on working and cannot
-- reach the service. So the brake is set when a session would expire while ten or more are silent, and they
-- are at least half of the open ones. A session is silent after half of its lease without a heartbeat; agents
-- send four in a lease. So when the first session would expire, the others of the same outage are silent
-- already.
--
-- While no session is heard, nothing expires: no agent could take the tasks. Once the first is heard, or a new one is
-- opened, each has one more lease time. Sessions that are still silent then expire: their farm was really killed. If
-- all are silent again by then, the brake stays.
--
-- The brake is released when no session is silent, or no session has time left.
--
-- Locks: the row of the brake, when something changes; else nothing is written. Index: session_open.
create or replace function taskq.brake()
returns timestamptz
language plpgsql
as $$
declare
    v_many constant integer := 10;
    v_now constant timestamptz := clock_timestamp();
    v_serving_since constant timestamptz := taskq.serving_since();
    v_was taskq.brake;
    v_is taskq.brake;
    v_due integer;
    v_longest double precision;
begin
    select b.* into v_was from taskq.brake b where b.only_one;
    v_is := v_was;
    v_is.heard_at := taskq.believed(v_was.heard_at, v_now);
    select count(*),
           count(*) filter (where o.heard_at + 0.5 * o.lease < v_now),
           count(*) filter (where greatest(o.heard_at, v_is.heard_at) + o.lease < v_now),
           max(o.lease_s) filter (where o.heard_at + 0.5 * o.lease < v_now)
      into v_is.open, v_is.silent, v_due, v_longest
      from (
          select s.lease_s, make_interval(secs => s.lease_s) as lease,
                 greatest(taskq.believed(s.heartbeat_at, v_now), v_serving_since) as heard_at
            from taskq.session s
           where s.ended_at is null
      ) o;

    if v_is.since is null then
        if v_due > 0 and v_is.silent >= v_many and 2 * v_is.silent >= v_is.open then
            v_is.since := v_now;
        end if;
    elsif v_is.heard_at is null and v_is.silent = v_is.open and v_is.silent < v_many
          or v_is.silent = 0
          or v_is.until < v_now and v_due = 0
    then
        v_is.since := null;
    elsif v_due > 0 and v_is.silent = v_is.open and v_is.silent >= v_many then
        v_is.heard_at := null;
    end if;

    if v_is.since is null then
        v_is.heard_at := null;
        v_is.until := null;
        v_is.silent := 0;
        v_is.open := 0;
    else
        if v_is.silent < v_is.open then
            v_is.heard_at := coalesce(v_is.heard_at, v_now);
        end if;
        v_is.until := v_is.heard_at + make_interval(secs => v_longest);
    end if;
    if v_is is distinct from v_was then
        update taskq.brake
           set since = v_is.since,
               heard_at = v_is.heard_at,
               until = v_is.until,
               silent = v_is.silent,
               open = v_is.open;
    end if;
    return case
        when v_due = 0 or v_is.since is not null and v_is.heard_at is null then 'infinity'
        else greatest(v_serving_since, v_is.heard_at)
    end;
end
$$;
