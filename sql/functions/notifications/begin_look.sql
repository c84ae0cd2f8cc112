-- begin_look(): begins a look at what is wrong, if one is due. Called by every keeper with `taskq keeper`, in each of
-- its rounds; the look ends with note_look().
--
-- Result: the number of the look, and each campaign with what rules name there; whole: whether to look for those who
-- may see the whole queue. Nothing: it is not yet time, or somebody else looks. Looks at campaigns of rules are ten
-- seconds apart, at the root and at campaigns of tokens half a minute; both so rare that looking takes a twentieth of
-- one process at most. A look that does not end is followed by another after a minute; if it then ends all the same,
-- note_look() takes it only if no later one has ended before.
--
-- Locks: the row of notify_watch; a second caller does not wait.
-- @roles operator
-- @gateway no
-- @act no: keepers look
create or replace function taskq.begin_look()
returns table (look bigint, path text, whole boolean, events text[])
language plpgsql
as $$
declare
    v_patience constant interval := '1 min';
    v_wide constant interval := '30 s';
    v_now constant timestamptz := clock_timestamp();
    v_look bigint;
    v_is_wide boolean;
begin
    select w.wide_at <= v_now into v_is_wide
      from taskq.notify_watch w
     where w.only_one
       and w.due_at <= v_now
       and (w.wide_at <= v_now or exists (select from taskq.notify_rule))
       for update skip locked;
    if not found then
        return;
    end if;
    update taskq.notify_watch w
       set look = w.look + 1,
           begun_at = v_now,
           due_at = v_now + v_patience,
           wide_at = case when v_is_wide then v_now + v_wide else w.wide_at end
     where w.only_one
 returning w.look into v_look;
    return query
        select v_look, p.path, p.whole, p.events
          from taskq.watched_paths() p
         where v_is_wide
            or p.events <> '{}'
         order by p.path, p.whole;
end
$$;
