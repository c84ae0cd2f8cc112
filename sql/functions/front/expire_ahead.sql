-- expire_ahead(): tasks that were leased ahead and that no agent has named within the front's pool_s
-- wait again: their entries are lost, or were never popped. Called by the keeper.
--
-- Result: how many. They do not count as attempts.
--
-- Time in which the server was down does not count: no agent could name a task.
--
-- Lease ids of the pool lead with the time at which they were made, by this clock. So the due ones are a
-- range of the index, and `front_sweep` has its beginning, below which nothing is left. The beginning stays while
-- somebody else has a row locked, and while tasks are being leased: a lease that commits after its deadline would lie
-- below it. Now and then, and when the clock was set back, the range begins at the very first lease.
--
-- Tasks that come back this way stay marked as the pool's (session 0), and are not leased ahead again: a
-- front that loses entries must not get the same tasks a second time.
--
-- Locks: the rows of the tasks, skipping locked ones; the row of the sweep; for an instant, and without waiting, the
-- lock that lease_ahead() shares. Index: task_working, task_pkey.
-- @plan generic by-key
create or replace function taskq.expire_ahead()
returns integer
language plpgsql
as $$
declare
    v_most constant integer := 10000;
    v_due timestamptz;
    v_below uuid;
    v_from uuid;
    v_leasing boolean;
    v_to uuid;
    v_campaigns bigint[];
    v_tasks bigint[];
    v_leases uuid[];
    v_returned integer := 0;
begin
    -- A look without a lock first: nearly always there is nothing to do.
    select clock_timestamp() - make_interval(secs => f.pool_s), s.below
      into v_due, v_below
      from taskq.front f, taskq.front_sweep s
     where f.epoch > 0;
    if not found or taskq.serving_since() > v_due then
        return 0;
    end if;
    v_to := rpad(lpad(to_hex((extract(epoch from v_due) * 1000)::bigint), 12, '0'), 32, '0')::uuid;
    v_from := case when v_below > v_to or random() < 0.002
                   then '00000000-0000-0000-0000-000000000000' else v_below end;
    -- Before the search for tasks: what is leased from now on is younger than v_due. Undoing the sub-transaction
    -- releases the lock at once, whatever this call does next.
    begin
        v_leasing := not pg_try_advisory_xact_lock(hashtext('taskq.lease_ahead'), 0);
        raise exception 'undone' using errcode = 'TQ001';
    exception
        when sqlstate 'TQ001' then
            null;
    end;
    select array_agg(t.campaign_id), array_agg(t.task_id), array_agg(t.lease_id)
      into v_campaigns, v_tasks, v_leases
      from (
          select t.campaign_id, t.task_id, t.lease_id
            from taskq.task t
           where t.session_id = 0
             and t.status = 'working'
             and t.lease_id >= v_from
             and t.lease_id < v_to
           order by t.session_id, t.lease_id
           limit v_most
      ) t;
    if v_leases is not null then
        v_returned := taskq.return_ahead(v_campaigns, v_tasks, v_leases, true);
    end if;
    if v_returned = coalesce(cardinality(v_leases), 0) and not v_leasing then
        if v_returned = v_most then
            v_to := v_leases[v_most];
        end if;
        -- A row that each call rewrites has many versions under a held snapshot.
        update taskq.front_sweep s
           set below = v_to
         where s.below = v_below
           and (v_returned > 0 or random() < 0.05);
    end if;
    return v_returned;
end
$$;
