-- unban(kind, name, path): ends the bans of a host or site now: new sessions are opened there again, and agents no
-- longer leave campaigns out. Agents with an order to drain still leave. The rows stay, since failures from before
-- accuse nobody, see attempt_sample().
--
-- path: only the ban for this campaign; null: all, also that for all campaigns; with a token, those that it is for.
-- Result: whether there was a ban that had not ended.
--
-- Locks: the bans' rows; the sessions whose agents left campaigns out, in their order. Index: ban_pkey, session_open.
-- @roles manager operator
-- @gateway manager, own
-- @repeat once
-- @act unban
create or replace function taskq.unban(p_kind text, p_name text, p_path text default null)
returns boolean
language plpgsql
as $$
declare
    v_now constant timestamptz := clock_timestamp();
    v_lifted text[];
begin
    with lifted as (
        update taskq.ban b
           set until = v_now
         where b.kind = p_kind
           and b.name = p_name
           and b.path = coalesce(p_path, b.path)
           and taskq.token_covers(b.path)
           and (b.until > v_now) is not false
     returning b.path
    )
    select array_agg(l.path order by l.path) into v_lifted from lifted l;
    if v_lifted <> array['/'] then
        perform taskq.note_bans(
            case p_kind when 'host' then array[p_name] end, case p_kind when 'site' then array[p_name] end);
    end if;
    perform taskq.note_act(l.path, 'unban', array[p_kind || ' ' || p_name]) from unnest(v_lifted) as l (path);
    return v_lifted is not null;
end
$$;
