-- freed_in_limit(campaign, name, rows): counts again which tasks still run of the claims in some rows of limit_claim, and forgets
-- sessions that have ended. A part of limit_room() and recount_limit(), whose locks keep the rows where they are; not for
-- clients.
--
-- Result: how many starts count of what is left of these rows.
--
-- Index: those of working_of_claim(), session_pkey; see add_in_limit().
create or replace function taskq.freed_in_limit(p_campaign bigint, p_name text, p_rows tid[])
returns bigint
language plpgsql
as $$
declare
    v_freed bigint;
    v_left bigint;
begin
    with seen as materialized (
        select k.ctid as row_id, k.slots, k.tasks as before, c.campaigns, c.leases, c.counts, c.tasks,
               c.tasks = 0 and not exists (
                   select from taskq.session_of(k.session_id) s where s.ended_at is null) as is_over
          from taskq.limit_claim k
         cross join lateral taskq.kept_claims(k.session_id, k.campaigns, k.leases, k.counts) c
         where k.ctid = any (p_rows)
    ), fewer as (
        update taskq.limit_claim k
           set number = k.number + 1,
               campaigns = s.campaigns,
               leases = s.leases,
               counts = s.counts,
               tasks = s.tasks
          from seen s
         where k.ctid = s.row_id
           and s.tasks < s.before
           and not s.is_over
    ), gone as (
        delete from taskq.limit_claim k
         where k.ctid = any (array(select s.row_id from seen s where s.is_over))
    )
    select coalesce(sum(least(s.slots, s.before) - least(s.slots, s.tasks)), 0),
           coalesce(sum(least(s.slots, s.tasks)), 0)
      into v_freed, v_left
      from seen s;
    perform taskq.add_in_limit(p_campaign, p_name, -v_freed);
    return v_left;
end
$$;
