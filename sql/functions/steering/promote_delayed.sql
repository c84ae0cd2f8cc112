-- promote_delayed(limit): delayed tasks that are due become waiting, at most `limit` in a call. Called by
-- the keeper.
--
-- Result: how many.
--
-- Locks: the rows of the tasks, skipping locked ones. Index: task_delayed.
-- @plan by-key
create or replace function taskq.promote_delayed(p_limit integer default 10000)
returns integer
language plpgsql
as $$
declare
    v_promoted integer := 0;
    v_due record;
begin
    -- Campaign by campaign, see beat(); by ctid, see settle().
    for v_due in
        select d.campaign_id, array_agg(d.row_id) as rows, count(*)::integer as count
          from (
              select t.campaign_id, t.ctid as row_id
                from taskq.task t
               where t.status = 'delayed'
                 and t.due_at <= clock_timestamp()
               order by t.due_at
               limit p_limit
                 for no key update skip locked
          ) d
         group by d.campaign_id
         order by d.campaign_id
    loop
        update taskq.task t
           set status = 'waiting'
         where t.ctid = any (v_due.rows);
        insert into taskq.delta (campaign_id, waiting, delayed)
        values (v_due.campaign_id, v_due.count, -v_due.count);
        v_promoted := v_promoted + v_due.count;
    end loop;
    return v_promoted;
end
$$;
