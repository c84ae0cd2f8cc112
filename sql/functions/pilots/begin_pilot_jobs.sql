-- begin_pilot_jobs(pilot, holder, place, most, wanted): the jobs that the loop is about to submit together.
--
-- They are written down before the batch system gets them: if the loop dies in between, the next loop knows
-- what to look for; see taskq/pilots/loop.py. place: the host, where the driver chooses it.
-- most: how many jobs of the pilot may be live. wanted: how many to begin. Jobs that ended a month ago are forgotten.
-- Result: a row for each job, by number; fewer than wanted if `most` leaves room for fewer; none if the pilot is not
-- active. A job alone is called taskq-NAME-KEY-NUMBER. If there are several, the batch system has the name of the
-- first, and each is called by that and its index: taskq-NAME-KEY-17_0, taskq-NAME-KEY-17_1.
-- Error TQ409: another loop acts for the pilot.
--
-- Locks: the pilot's row. Index: pilot_job_live.
-- @roles manager pilots
-- @gateway manager, up to 1000000
-- @repeat once
-- @act no: the loop of a pilot does what the plan says
create or replace function taskq.begin_pilot_jobs(
    p_pilot bigint,
    p_holder uuid,
    p_place text,
    p_most integer,
    p_wanted integer
)
returns table (
    number integer,
    name text
)
language plpgsql
as $$
declare
    v_status constant text := taskq.lock_held_pilot(p_pilot, p_holder);
    v_count integer;
    v_first integer;
    v_name text;
begin
    delete from taskq.pilot_job j
     where j.pilot_id = p_pilot
       and j.ended_at < clock_timestamp() - interval '30 days';
    select least(p_wanted, p_most - count(*)) into v_count
      from taskq.pilot_job j
     where j.pilot_id = p_pilot
       and j.status <> 'ended';
    if v_status <> 'active' or v_count < 1 then
        return;
    end if;
    update taskq.pilot p
       set next_number = p.next_number + v_count
     where p.pilot_id = p_pilot
    returning p.next_number - v_count, format('taskq-%s-%s-%s', p.name, p.key, p.next_number - v_count)
         into v_first, v_name;
    return query
        insert into taskq.pilot_job as j (pilot_id, number, name, place, began_at)
        select p_pilot, v_first + i, v_name || case when v_count > 1 then '_' || i else '' end,
               left(p_place, 200), clock_timestamp()
          from generate_series(0, v_count - 1) i
        returning j.number, j.name;
end
$$;
