-- freed_in_limits(rows): counts again which tasks of some claims in limit_claim still run, and forgets claims without
-- any. A part of limit_room() and free_limits(), whose locks keep the rows where they are; not for clients.
--
-- Index: those of working_of_claim().
create or replace function taskq.freed_in_limits(p_rows tid[])
returns void
language plpgsql
as $$
declare
    v_ended tid[];
    v_fewer tid[];
    v_working integer[];
begin
    select array_agg(c.row_id) filter (where c.working = 0),
           array_agg(c.row_id) filter (where c.working > 0),
           array_agg(c.working) filter (where c.working > 0)
      into v_ended, v_fewer, v_working
      from (
          select k.ctid as row_id, k.tasks, w.working
            from taskq.limit_claim k
           cross join lateral taskq.working_of_claim(k.campaign_id, k.session_id, k.lease_id) w
           where k.ctid = any (p_rows)
          offset 0
      ) c
     where c.working < c.tasks;
    delete from taskq.limit_claim k
     where k.ctid = any (v_ended);
    if v_fewer is not null then
        update taskq.limit_claim k
           set tasks = f.working
          from unnest(v_fewer, v_working) as f (row_id, working)
         where k.ctid = f.row_id;
    end if;
end
$$;
