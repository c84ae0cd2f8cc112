-- ban(kind, name, why, lifetime_s, path): keeps agents away from a host or site, for all campaigns or for one with all
-- below it, until the ban ends or is lifted. Those at work there that serve nothing else drain, and no such session is
-- opened there, see admit_agent(). Agents that serve more leave the campaign out. Replaces an earlier ban of the same
-- host or site for the same campaign.
--
-- kind: host or site. name: as agents name it; they may give another name, so to keep somebody out for
--     safety, revoke the token. lifetime_s: seconds until the ban ends; null: when it is lifted. path: the campaign.
-- Result: how many agents were not draining before, or did not leave the campaign out. They get the order, with the
--     reason, with the answer to their next heartbeat, and work on what they hold.
-- Error TQ400: not such a kind, name, reason or time. Error TQ404: no such campaign. Error TQ409: there are 1,000 bans,
--     and none has ended; else the one that ended first makes room. Or the host or site is banned for 16 campaigns:
--     its agents get their list with each heartbeat. Of these, a token for a part may have 100, and 4 of one host or
--     site, so that it leaves room to others.
--
-- Moves no task, and no claim or report reads it; it costs as much as drain_sessions(). For a session that is
-- being opened meanwhile see drain_banned().
--
-- Locks: the ban's row; the sessions, in their order. Index: ban_pkey, session_open.
-- @roles manager operator
-- @gateway manager
-- @repeat once
-- @act ban
create or replace function taskq.ban(
    p_kind text,
    p_name text,
    p_why text,
    p_lifetime_s double precision default null,
    p_path text default '/'
)
returns integer
language plpgsql
as $$
declare
    v_most constant integer := 1000;
    v_most_campaigns constant integer := 16;
    -- A token for a part.
    v_is_of_part constant boolean := not taskq.token_covers('/');
    v_most_of_part constant integer := 100;
    v_most_campaigns_of_part constant integer := 4;
    v_held bigint;
    v_held_there bigint;
    v_now constant timestamptz := clock_timestamp();
    v_noted integer;
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
    perform taskq.campaign_id(p_path);
    if v_is_of_part then
        select count(*), count(*) filter (where b.kind = p_kind and b.name = p_name) into v_held, v_held_there
          from taskq.ban b
         where (b.until > v_now) is not false
           and taskq.token_covers(b.path)
           and (b.kind, b.name, b.path) <> (p_kind, p_name, p_path);
        if v_held >= v_most_of_part or v_held_there >= v_most_campaigns_of_part then
            raise exception 'a token for a part has at most % bans, and % of one %; lift some, or ban for a campaign'
                            ' above them', v_most_of_part, v_most_campaigns_of_part, p_kind
                using errcode = 'TQ409';
        end if;
    end if;
    if p_path <> '/'
       and (select count(*)
              from taskq.ban b
             where b.kind = p_kind
               and b.name = p_name
               and b.path not in ('/', p_path)
               and (b.until > v_now) is not false) >= v_most_campaigns then
        raise exception 'the % % is banned for % campaigns; ban it for one above them, or for all', p_kind, p_name,
                v_most_campaigns
            using errcode = 'TQ409';
    end if;
    if (select count(*) from taskq.ban) >= v_most
       and not exists (
           select from taskq.ban b where b.kind = p_kind and b.name = p_name and b.path = p_path) then
        delete from taskq.ban b
         where (b.kind, b.name, b.path) = (
               select e.kind, e.name, e.path from taskq.ban e where e.until <= v_now order by e.until limit 1);
        if not found then
            raise exception 'there are % bans; lift some', v_most using errcode = 'TQ409';
        end if;
    end if;
    insert into taskq.ban (kind, name, path, why, login, banned_at, until)
    values (p_kind, p_name, p_path, p_why, taskq.caller(), v_now,
            v_now + make_interval(secs => p_lifetime_s))
        on conflict (kind, name, path) do update
       set why = excluded.why,
           login = excluded.login,
           banned_at = excluded.banned_at,
           until = excluded.until;
    v_noted := case when p_path = '/' then 0
                    else taskq.note_bans(
                        case p_kind when 'host' then array[p_name] end,
                        case p_kind when 'site' then array[p_name] end) end;
    v_noted := v_noted + taskq.drain_found(
        p_path, case p_kind when 'site' then array[p_name] end, null, case p_kind when 'host' then array[p_name] end);
    perform taskq.note_act(p_path, 'ban', array[p_kind || ' ' || p_name, p_why]);
    return v_noted;
end
$$;
