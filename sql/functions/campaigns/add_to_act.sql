-- add_to_act(act, tasks, what): adds one more call to an act. A part of note_act() and note_move(); not for clients.
--
-- what: null: as before. Result: false if there is no such act, or another transaction has its row: nobody waits for it.
-- Locks: the row of `act`. Index: act_pkey.
-- @plan by-one-key
create or replace function taskq.add_to_act(p_act bigint, p_tasks bigint, p_what text[] default null)
returns boolean
language plpgsql
as $$
begin
    perform from taskq.act a where a.act_id = p_act for no key update skip locked;
    if found then
        update taskq.act a
           set what = coalesce(p_what, a.what),
               ended_at = clock_timestamp(),
               calls = a.calls + 1,
               tasks = a.tasks + p_tasks
         where a.act_id = p_act;
        return true;
    end if;
    return false;
end
$$;
