-- begin_pilot_jobs(pilot, holder, count, most): numbers for jobs that the loop is about to submit.
--
-- They are written down before the batch system hears of them, so that a loop which dies in between is
-- followed by one that knows what to look for; see taskq/pilots/loop.py. most: how many jobs of the pilot may
-- be live. Jobs that ended a month ago are forgotten.
-- Result: the numbers, as many as are allowed, at most `count`; none unless the pilot is active.
-- Error TQ409: another loop acts for the pilot.
--
-- Locks: the pilot's row. Index: pilot_job_live.
create or replace function taskq.begin_pilot_jobs(
    p_pilot bigint,
    p_holder uuid,
    p_count integer,
    p_most integer
)
returns setof integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_status constant text := taskq.lock_held_pilot(p_pilot, p_holder);
    v_live integer;
    v_count integer;
begin
    delete from taskq.pilot_job j
     where j.pilot_id = p_pilot
       and j.ended_at < clock_timestamp() - interval '30 days';
    select count(*) into v_live
      from taskq.pilot_job j
     where j.pilot_id = p_pilot
       and j.status <> 'ended';
    v_count := least(p_count, p_most - v_live);
    if v_status <> 'active' or v_count <= 0 then
        return;
    end if;
    return query
        with last as (
            update taskq.pilot p
               set next_number = p.next_number + v_count
             where p.pilot_id = p_pilot
            returning p.next_number as number
        )
        insert into taskq.pilot_job (pilot_id, number, began_at)
        select p_pilot, l.number - v_count + n.n, clock_timestamp()
          from last l, generate_series(0, v_count - 1) as n (n)
        returning number;
end
$$;
