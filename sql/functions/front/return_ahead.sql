-- return_ahead(campaigns, tasks, leases, lost): makes tasks wait again that were leased ahead and that no
-- agent has named, as if they had never been leased. One element of each array for a task.
--
-- lost: their entries are lost; they are not leased ahead again, see expire_ahead().
-- Result: how many. Tasks that an agent has reported, or named in a heartbeat, stay as they are.
-- Error TQ400: arrays of different lengths, or with a null in them.
--
-- Locks: the rows of the tasks, skipping locked ones: these are left to the pool's
-- deadline. Index: task_pkey, by look-ups only; see settle().
-- @roles upkeep
-- @plan generic by-key
create or replace function taskq.return_ahead(
    p_campaigns bigint[],
    p_tasks bigint[],
    p_leases uuid[],
    p_lost boolean default false
)
returns integer
language plpgsql
as $$
declare
    v_returned integer := 0;
    v_one record;
    v_back taskq.task_status;
begin
    if (cardinality(p_tasks) = cardinality(p_campaigns)
        and cardinality(p_leases) = cardinality(p_campaigns)
        and array_position(p_campaigns, null) is null
        and array_position(p_tasks, null) is null
        and array_position(p_leases, null) is null) is not true
    then
        raise exception 'campaigns, tasks and leases must be arrays of one length without nulls'
            using errcode = 'TQ400';
    end if;
    -- Campaign by campaign, see beat(); by ctid, see settle().
    for v_one in
        select d.campaign_id, array_agg(d.row_id) as rows, count(*)::integer as count
          from (
              select distinct t.campaign_id, t.row_id
                from unnest(p_campaigns, p_tasks, p_leases) as r (campaign_id, task_id, lease_id)
               cross join lateral (
                   select t.campaign_id, t.ctid as row_id
                     from taskq.task t
                    where t.campaign_id = r.campaign_id
                      and t.task_id = r.task_id
                      and t.lease_id = r.lease_id
                      and t.session_id = 0
                      and t.status::text = 'working'
                      for no key update skip locked
               ) t
          ) d
         group by d.campaign_id
         order by d.campaign_id
    loop
        v_back := taskq.status_after(v_one.campaign_id, 'waiting');
        update taskq.task t
           set status = v_back,
               attempt = t.attempt - 1,
               session_id = case when p_lost then 0 end
         where t.ctid = any (v_one.rows);
        insert into taskq.delta (campaign_id, waiting, working, cancelled)
        values (v_one.campaign_id, case when v_back = 'waiting' then v_one.count else 0 end,
                -v_one.count, case when v_back = 'cancelled' then v_one.count else 0 end);
        v_returned := v_returned + v_one.count;
    end loop;
    return v_returned;
end
$$;
