-- note_serving(until, same): records since when this server has been serving: after it took over from another, or
-- its timelines began again; after a time in which no keeper acted, such as a suspended machine; and after the
-- clock was set back. Called by the keeper before it expires sessions.
--
-- until: when the term of the last keeper ended or ends; -infinity: there was none. Another keeper takes over within
-- half a minute, see taskq/upkeep/keeper.py, so a longer time without one is no such change. same: whether that
-- keeper is the one that calls: it was suspended, and agents with it.
--
-- Locks: the row of `serving`, after such a change; else nothing is written.
create or replace function taskq.note_serving(p_until timestamptz, p_same boolean)
returns void
language plpgsql
as $$
declare
    v_own constant bigint := taskq.wal_timeline();
    v_now constant timestamptz := clock_timestamp();
begin
    update taskq.serving s
       set earlier = s.earlier
               + case when v_own between 1 and s.timeline - 1 then s.timeline else 0 end,
           timeline = coalesce(nullif(v_own, 0), s.timeline),
           since = v_now
     where v_own not in (0, s.timeline)
        or p_until <> '-infinity' and p_until < v_now - interval '30 s'
           and (p_same or not taskq.all_have_left(p_until))
        or taskq.believed(p_until, v_now) is null;
end
$$;
