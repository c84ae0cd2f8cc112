-- begin_pilot_job(pilot, holder, place, most): the number of a job that the loop is about to submit.
--
-- It is written down before the batch system gets the job: if the loop dies in between, the next loop knows
-- what to look for; see taskq/pilots/loop.py. place: the host, where the driver chooses it.
-- most: how many jobs of the pilot may be live. Jobs that ended a month ago are forgotten.
-- Result: null if there are as many already, or the pilot is not active.
-- Error TQ409: another loop acts for the pilot.
--
-- Locks: the pilot's row. Index: pilot_job_live.
-- @roles manager pilots
-- @gateway manager, up to 1000000
-- @repeat once
create or replace function taskq.begin_pilot_job(
    p_pilot bigint,
    p_holder uuid,
    p_place text,
    p_most integer
)
returns integer
language plpgsql
as $$
declare
    v_status constant text := taskq.lock_held_pilot(p_pilot, p_holder);
    v_live integer;
    v_number integer;
begin
    delete from taskq.pilot_job j
     where j.pilot_id = p_pilot
       and j.ended_at < clock_timestamp() - interval '30 days';
    select count(*) into v_live
      from taskq.pilot_job j
     where j.pilot_id = p_pilot
       and j.status <> 'ended';
    if v_status <> 'active' or v_live >= p_most then
        return null;
    end if;
    update taskq.pilot p
       set next_number = p.next_number + 1
     where p.pilot_id = p_pilot
    returning p.next_number - 1 into v_number;
    insert into taskq.pilot_job (pilot_id, number, place, began_at)
    values (p_pilot, v_number, left(p_place, 200), clock_timestamp());
    return v_number;
end
$$;
