-- ban(kind, name, why, lifetime_s): keeps agents away from a host or site: those at work there drain, and
-- no new session is opened there, see admit_agent(), until the ban ends or is lifted. Replaces an earlier ban.
--
-- kind: host or site. name: as agents name it; they may give another name, so to keep somebody out for
--     safety, revoke the token. lifetime_s: seconds until the ban ends; null: when it is lifted.
-- Result: how many agents were not draining before. They get the order, with the reason, with the
--     answer to their next heartbeat, and work on what they hold.
-- Error TQ400: not such a kind, name, reason or time. Error TQ409: there are 1,000 bans, and none has ended;
--     else the one that ended first makes room.
--
-- Moves no task, and no claim or report reads it; it costs as much as drain_sessions(). For a session that is
-- being opened meanwhile see drain_banned().
--
-- Locks: the ban's row; the sessions, in their order. Index: ban_pkey, session_open.
-- @roles operator
-- @gateway no
create or replace function taskq.ban(
    p_kind text,
    p_name text,
    p_why text,
    p_lifetime_s double precision default null
)
returns integer
language plpgsql
as $$
declare
    v_most constant integer := 1000;
    v_now constant timestamptz := clock_timestamp();
begin
    if (p_kind in ('host', 'site')
        and length(p_name) between 1 and 200
        and length(p_why) between 1 and 500
        and coalesce(p_lifetime_s between 1 and 315360000, p_lifetime_s is null)) is not true
    then
        raise exception 'a ban names a host or site (1 to 200 characters) and a reason (1 to 500), and'
                        ' lasts from 1 s to 10 years'
            using errcode = 'TQ400';
    end if;
    if (select count(*) from taskq.ban) >= v_most
       and not exists (select from taskq.ban b where b.kind = p_kind and b.name = p_name) then
        delete from taskq.ban b
         where (b.kind, b.name) = (
               select e.kind, e.name from taskq.ban e where e.until <= v_now order by e.until limit 1);
        if not found then
            raise exception 'there are % bans; lift some', v_most using errcode = 'TQ409';
        end if;
    end if;
    insert into taskq.ban (kind, name, why, login, banned_at, until)
    values (p_kind, p_name, p_why, session_user, v_now, v_now + make_interval(secs => p_lifetime_s))
        on conflict (kind, name) do update
       set why = excluded.why,
           login = excluded.login,
           banned_at = excluded.banned_at,
           until = excluded.until;
    return taskq.drain_sessions(
        '/', p_sites => case p_kind when 'site' then array[p_name] end,
        p_hosts => case p_kind when 'host' then array[p_name] end);
end
$$;
