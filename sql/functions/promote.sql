-- promote(limit): delayed tasks that are due become waiting, at most `limit` in a call. Called by
-- the keeper.
--
-- Result: how many.
--
-- Locks: the rows of the tasks, skipping locked ones. Index: task_delayed.
create or replace function taskq.promote(p_limit integer default 10000)
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
    v_promoted integer;
begin
    with due as materialized (
        select t.campaign_id, t.task_id
          from taskq.task t
         where t.status = 'delayed'
           and t.due_at <= clock_timestamp()
         order by t.due_at
         limit p_limit
           for no key update skip locked
    ), moved as (
        update taskq.task t
           set status = 'waiting'
          from due d
         where t.campaign_id = d.campaign_id
           and t.task_id = d.task_id
     returning t.campaign_id
    ), counted as (
        insert into taskq.delta (campaign_id, waiting, delayed)
        select m.campaign_id, count(*), -count(*)
          from moved m
         group by m.campaign_id
    )
    select count(*) into v_promoted from moved;
    return v_promoted;
end
$$;
