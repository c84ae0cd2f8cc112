-- begin_look(): begins a look at the campaigns that notification rules name, if one is due. Called by every keeper that
-- sends, in each of its rounds; the look ends with note_events().
--
-- Result: the number of the look, and each campaign with what its rules name; nothing: there are no rules, it is not
-- yet time, or somebody else looks. Looks are ten seconds apart, and so rare that looking takes a twentieth of one
-- process at most. A look that does not end is followed by another after a minute; if it then ends all the same,
-- note_events() takes it only if no later one has ended before.
--
-- Locks: the row of notify_watch; a second caller does not wait.
-- @roles operator
-- @gateway no
create or replace function taskq.begin_look()
returns table (look bigint, path text, events text[])
language plpgsql
as $$
declare
    v_patience constant interval := '1 min';
    v_now constant timestamptz := clock_timestamp();
    v_look bigint;
begin
    if not exists (select from taskq.notify_rule) then
        return;
    end if;
    perform from taskq.notify_watch w where w.due_at <= v_now for update skip locked;
    if not found then
        return;
    end if;
    update taskq.notify_watch w
       set look = w.look + 1,
           begun_at = v_now,
           due_at = v_now + v_patience
 returning w.look into v_look;
    return query
        select v_look, r.path, array_agg(distinct e.event)
          from taskq.notify_rule r
         cross join lateral unnest(r.events) as e (event)
         group by r.path
         order by r.path;
end
$$;
