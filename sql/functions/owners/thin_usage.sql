-- thin_usage(now): makes days of hours that are three days old, and months of days that are a hundred days old; at
-- most 5,000 rows of each. Called by the keeper.
--
-- Result: how many rows it took together; 0: none is old, or somebody else adds.
-- Locks: the row of `summed`. Index: usage_age, usage_pkey.
-- @plan by-one-key
create or replace function taskq.thin_usage(p_now timestamptz default clock_timestamp())
returns integer
language plpgsql
as $$
declare
    v_most constant integer := 5000;
    v_one record;
    v_old taskq.usage[];
    v_total integer := 0;
begin
    perform from taskq.summed s where s.only_one for update skip locked;
    if not found then
        return 0;
    end if;
    for v_one in
        select *
          from (values ('hour', 'day', p_now - interval '3 days'), ('day', 'month', p_now - interval '100 days'))
               as g (grain, longer, before)
    loop
        with old as (
            delete from taskq.usage u
             where u.ctid = any (array(
                       select o.ctid
                         from taskq.usage o
                        where o.grain = v_one.grain
                          and o.since < date_trunc(v_one.longer, v_one.before, 'UTC')
                        order by o.grain, o.since
                        limit v_most))
         returning u.*
        )
        select array_agg((o.path, v_one.longer, date_trunc(v_one.longer, o.since, 'UTC'), o.campaign_id, o.owner, o.site,
                          o.outcome, o.attempts, o.run_ms, o.core_ms, o.gpu_ms)::taskq.usage)
          into v_old
          from old o;
        perform taskq.add_used(v_old);
        v_total := v_total + coalesce(cardinality(v_old), 0);
    end loop;
    return v_total;
end
$$;
