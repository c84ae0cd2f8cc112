-- freed_at_site(campaign, site, rows): counts again which tasks still run of the claims in some rows of site_claim, and
-- forgets sessions that have ended. A part of site_room(), whose lock keeps the rows where they are; not for clients.
--
-- Result: how many tasks no longer run.
--
-- Index: those of working_of_claim(), session_pkey; see add_at_site().
create or replace function taskq.freed_at_site(p_campaign bigint, p_site text, p_rows tid[])
returns bigint
language plpgsql
as $$
declare
    v_freed bigint;
begin
    with seen as materialized (
        select k.ctid as row_id, k.tasks as before, c.leases, c.counts, c.tasks,
               c.tasks = 0 and not exists (
                   select from taskq.session_of(k.session_id) s where s.ended_at is null) as is_over
          from taskq.site_claim k
         cross join lateral taskq.kept_claims(
             k.session_id, array_fill(p_campaign, array[cardinality(k.leases)]), k.leases, k.counts) c
         where k.ctid = any (p_rows)
    ), fewer as (
        update taskq.site_claim k
           set number = k.number + 1,
               leases = s.leases,
               counts = s.counts,
               tasks = s.tasks
          from seen s
         where k.ctid = s.row_id
           and s.tasks < s.before
           and not s.is_over
    ), gone as (
        delete from taskq.site_claim k
         where k.ctid = any (array(select s.row_id from seen s where s.is_over))
    )
    select coalesce(sum(s.before - s.tasks), 0) into v_freed from seen s;
    perform taskq.add_at_site(p_campaign, p_site, -v_freed);
    return v_freed;
end
$$;
