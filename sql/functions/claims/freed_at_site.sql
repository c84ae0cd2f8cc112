-- freed_at_site(campaign, rows): counts again which tasks of some claims in site_claim still run, and forgets
-- claims without any. A part of site_room(), whose lock keeps the rows where they are; not for clients.
--
-- Result: how many tasks no longer run.
--
-- Index: those of working_of_claim().
create or replace function taskq.freed_at_site(p_campaign bigint, p_rows tid[])
returns bigint
language plpgsql
as $$
declare
    v_freed bigint;
    v_ended tid[];
    v_fewer tid[];
    v_working integer[];
begin
    select array_agg(c.row_id) filter (where c.working = 0),
           array_agg(c.row_id) filter (where c.working > 0),
           array_agg(c.working) filter (where c.working > 0),
           coalesce(sum(c.tasks - c.working), 0)
      into v_ended, v_fewer, v_working, v_freed
      from (
          select k.ctid as row_id, k.tasks, w.working
            from taskq.site_claim k
           cross join lateral taskq.working_of_claim(p_campaign, k.session_id, k.lease_id) w
           where k.ctid = any (p_rows)
          offset 0
      ) c
     where c.working < c.tasks;
    delete from taskq.site_claim k
     where k.ctid = any (v_ended);
    if v_fewer is not null then
        update taskq.site_claim k
           set tasks = f.working
          from unnest(v_fewer, v_working) as f (row_id, working)
         where k.ctid = f.row_id;
    end if;
    return v_freed;
end
$$;
