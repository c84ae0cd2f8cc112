-- thin_end_sums(now): makes hours of sums of ends that are a day old, and deletes hours that are a week old; at most
-- 5,000 rows of each. Called by the keeper.
--
-- Result: how many rows it took together; 0: none is old, or somebody else adds.
-- Locks: the row of `summed`. Index: end_sum_pkey.
-- @plan by-one-key
create or replace function taskq.thin_end_sums(p_now timestamptz default clock_timestamp())
returns integer
language plpgsql
as $$
declare
    v_most constant integer := 5000;
    v_old taskq.end_sum[];
    v_gone integer;
begin
    perform from taskq.summed s where s.only_one for update skip locked;
    if not found then
        return 0;
    end if;
    with old as (
        delete from taskq.end_sum s
         where s.ctid = any (array(
                   select o.ctid
                     from taskq.end_sum o
                    where o.since < date_trunc('hour', p_now - interval '1 day', 'UTC')
                      and o.grain = '10 min'
                    order by o.since
                    limit v_most))
     returning s.*
    )
    select array_agg(o) into v_old
      from (select date_trunc('hour', o.since, 'UTC') as since, 'hour'::text as grain, o.campaign_id, o.host, o.site,
                   o.release, o.outcome, o.sort, taskq.total(o.attempts) as attempts,
                   taskq.total(o.run_ms) as run_ms, taskq.total(o.core_ms) as core_ms, sum(o.logs) as logs,
                   sum(o.squares) as squares, taskq.total(o.numbers) as numbers, sum(o.number_sum) as number_sum,
                   sum(o.number_squares) as number_squares, min(o.first_task) as first_task,
                   max(o.last_task) as last_task, min(o.first_at) as first_at, max(o.last_at) as last_at
              from old o
             group by 1, 2, 3, 4, 5, 6, 7, 8) o;
    perform taskq.add_end_sums('hour', v_old);
    with gone as (
        delete from taskq.end_sum s
         where s.ctid = any (array(
                   select o.ctid
                     from taskq.end_sum o
                    where o.since < date_trunc('hour', p_now - interval '7 days', 'UTC')
                    order by o.since
                    limit v_most))
     returning 1
    )
    select count(*) into v_gone from gone;
    return coalesce(cardinality(v_old), 0) + v_gone;
end
$$;
