-- withdraw(campaign, tasks, after, limit, dry_run): withdraws the accepted results of done tasks, which wait again.
-- A part of retry(), which holds the campaign's lock; not for clients.
--
-- tasks: only these; null: all done tasks of the campaign. after, limit, dry_run, moved, last: see retry().
--
-- The attempt stays in the task's history as withdrawn, with its result. The task goes to other hosts first than
-- the attempt's. Its output files stay until the task is done again, see end_outputs().
--
-- Locks: result_index against new indexes; the attempts, in the order of their key; the campaign's indexes, which
-- forget the results, see forget_results(). Index: attempt_pkey, spec_pkey, output_pkey.
-- @plan generic by-key
create or replace function taskq.withdraw(
    p_campaign bigint,
    p_tasks bigint[],
    p_after bigint,
    p_limit integer,
    p_dry_run boolean,
    out moved integer,
    out last bigint
)
language plpgsql
as $$
declare
    v_now timestamptz;
    v_tasks bigint[];
    v_attempts integer[];
    v_rows tid[];
begin
    if p_tasks is null then
        p_tasks := array(
            select a.task_id
              from taskq.attempt a
             where a.campaign_id = p_campaign
               and a.task_id > p_after
               and a.outcome = 'done'
             order by a.campaign_id, a.task_id
             limit p_limit);
        if cardinality(p_tasks) = p_limit then
            last := p_tasks[p_limit];
        end if;
    end if;
    if p_dry_run then
        select count(*) into moved
          from (select distinct u.task_id from unnest(p_tasks) as u (task_id) where u.task_id > p_after) u
         where exists (
             select
               from taskq.attempt a
              where a.campaign_id = p_campaign
                and a.task_id = u.task_id
                and a.outcome = 'done'
             offset 0);
        return;
    end if;
    lock table taskq.result_index in row exclusive mode;
    select array_agg(a.task_id), array_agg(a.attempt), array_agg(a.row_id)
      into v_tasks, v_attempts, v_rows
      from (select distinct u.task_id
              from unnest(p_tasks) as u (task_id)
             where u.task_id > p_after
             order by 1) u
     cross join lateral (
           select a.task_id, a.attempt, a.ctid as row_id
             from taskq.attempt a
            where a.campaign_id = p_campaign
              and a.task_id = u.task_id
              and a.outcome = 'done'
              for no key update) a;
    moved := coalesce(cardinality(v_tasks), 0);
    if moved = 0 then
        return;
    end if;
    -- After the locks: a result is withdrawn after its attempt has ended.
    v_now := clock_timestamp();
    perform taskq.forget_results(p_campaign, v_tasks);
    update taskq.attempt a
       set outcome = 'withdrawn'
     where a.ctid = any (v_rows);  -- see settle()
    insert into taskq.withdrawal (campaign_id, task_id, attempt, withdrawn_at)
    select p_campaign, u.task_id, u.attempt, v_now
      from unnest(v_tasks, v_attempts) as u (task_id, attempt);
    insert into taskq.task (
           campaign_id, task_id, lease_id, session_id, claimed_at, due_at, status, attempt, priority, avoids)
    select p_campaign, u.task_id, l.lease_id, l.session_id, l.claimed_at, v_now, 'waiting', l.attempt,
           coalesce(s.priority, 0),
           taskq.avoiding(null, (
               select a.session_id
                 from taskq.attempt a
                where a.campaign_id = p_campaign
                  and a.task_id = u.task_id
                  and a.attempt = u.attempt))
      from unnest(v_tasks, v_attempts) as u (task_id, attempt)
     cross join lateral (
           select l.lease_id, l.session_id, l.claimed_at, l.attempt
             from taskq.attempt l
            where l.campaign_id = p_campaign
              and l.task_id = u.task_id
            order by l.campaign_id desc, l.task_id desc, l.attempt desc
            limit 1) l
      left join lateral taskq.spec_of(p_campaign, u.task_id) s on true
        on conflict (campaign_id, task_id) do nothing;  -- a done task has a row only in a damaged campaign
    update taskq.output o
       set decided = false
     where o.ctid = any (array(
               select o.row_id
                 from unnest(v_tasks) as u (task_id)
                cross join lateral (
                      select o.ctid as row_id
                        from taskq.output o
                       where o.campaign_id = p_campaign
                         and o.task_id = u.task_id
                         and o.decided
                         for no key update) o));
    insert into taskq.delta (campaign_id, waiting, done) values (p_campaign, moved, -moved);
end
$$;
