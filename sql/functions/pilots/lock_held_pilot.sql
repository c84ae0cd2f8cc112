-- lock_held_pilot(pilot, holder): locks a pilot's row for the loop that acts for it. A part of
-- begin_pilot_jobs() and note_pilot(); not for clients.
--
-- Result: the pilot's status. Error TQ409: another loop acts for the pilot, or nobody any more.
create or replace function taskq.lock_held_pilot(p_pilot bigint, p_holder uuid)
returns text
language plpgsql
as $$
declare
    v_status text;
begin
    select p.status into v_status
      from taskq.pilot p
     where p.pilot_id = p_pilot
       and p.holder = p_holder
       and p.held_until > clock_timestamp()
       and taskq.token_covers(p.path)
       for update;
    if not found then
        raise exception 'another loop acts for this pilot now: look at `taskq pilot show`' using errcode = 'TQ409';
    end if;
    return v_status;
end
$$;
