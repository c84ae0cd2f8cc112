-- free_limits(): finds the tasks that have ended among those that count towards named limits, so that no more room is
-- lost than to claims of some seconds ago; see limit_room(). A part of keep().
--
-- It looks at 20,000 sessions, of limits in an order drawn at random. Locks: those of the limits; it leaves out limits
-- in which somebody is claiming. Index: limit_claim_pkey, and those of working_of_claim().
-- @plan generic by-one-key
create or replace function taskq.free_limits()
returns void
language plpgsql
as $$
declare
    v_left integer := 20000;
    v_name text;
begin
    for v_name in select l.name from taskq.named_limit l order by random() loop
        exit when v_left <= 0;
        continue when not pg_try_advisory_xact_lock(hashtext('taskq.limit'), hashtext(v_name));
        v_left := v_left - taskq.recount_limit(0, v_name, v_left);
    end loop;
end
$$;
