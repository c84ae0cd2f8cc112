-- pick_again(campaign, sessions, most, tasks, ranks): finds and locks waiting tasks that have failed before,
-- for claims on hosts that may have them, and says which of them go with what pick() has found. A part
-- of take() and lease_ahead(), which pin the settings; not for clients.
--
-- sessions: who claims, one element for each task that is wanted; null: the pool, which may hand a task to
--     anybody. most: how many are wanted. tasks, ranks: what pick() has found and locked.
-- tasks, ranks: what is to be claimed, of both kinds, of each claim what has the highest priority and was
--     seeded first; null: what pick() has found, or nothing. places: for which element of `sessions`.
--
-- A task that failed on a host is not tried there again as long as another host serves the campaign, see
-- hosts_serving(): a host on which everything fails would else spend all attempts of what comes to it.
-- That holds for two minutes after it was due, since the others may be busy, and for a day if it is the
-- task's last attempt. Where all hosts that serve it have failed it, any may have it.
--
-- Such tasks wait in an index of their own. It is walked for 1,000 of them at most, whoever may have
-- them, when a connection's position hint is dropped, see pick(); and with each claim as long as
-- something is found there. So a claim of what nobody has tried never walks over them.
--
-- Locks: the rows of the tasks, skipping locked ones. Index: task_waiting_again, task_pkey,
-- session_pkey, session_host.
create or replace function taskq.pick_again(
    p_campaign bigint,
    p_sessions bigint[],
    p_most integer,
    p_tasks bigint[],
    p_ranks bigint[],
    out tasks bigint[],
    out ranks bigint[],
    out places integer[]
)
language plpgsql
as $$
declare
    v_walk constant integer := 1000;
    -- More than are wanted, as others may be locking the first ones.
    v_spare constant integer := 64;
    v_now constant timestamptz := clock_timestamp();
    v_setting text := 'taskq.position_' || p_campaign;
    v_hint bigint[] := nullif(current_setting(v_setting, true), '')::bigint[];
    v_attempts integer;
    v_serving integer[];
    v_hosts integer[];
    v_found bigint[];
    v_task record;
    v_next integer := 1;
    v_place integer;
    v_fresh integer := 0;
begin
    if p_most > 0 and exists (
        select from taskq.task t
         where t.campaign_id = p_campaign
           and t.status = 'waiting'
           and t.avoids is not null
    ) then
        select c.max_attempts into v_attempts
          from taskq.campaign c
         where c.campaign_id = p_campaign;
        v_serving := taskq.hosts_serving(p_campaign, least(v_attempts, 17));
        -- The element of each claim; where there is no session, take() has refused it.
        v_hosts := array(
            select coalesce((select hashtext(s.host)
                               from taskq.session s
                              where s.session_id = e.session_id), 0)
              from unnest(p_sessions) with ordinality as e (session_id, ord)
             order by e.ord);
        v_found := array(
            select w.task_id
              from (
                  select t.task_id, (-t.priority) as rank, t.avoids, t.due_at, t.failures,
                         t.session_id
                    from taskq.task t
                   where t.campaign_id = p_campaign
                     and t.status = 'waiting'
                     and t.avoids is not null
                   order by t.campaign_id, (-t.priority), t.task_id
                   limit v_walk
              ) w
             where (not v_hosts <@ w.avoids
                    or not taskq.is_bound(
                           w.avoids, w.due_at, w.failures, v_attempts, v_serving, v_now))
               and (p_sessions is not null or coalesce(w.session_id <> 0, true))
             order by w.rank, w.task_id
             limit p_most + v_spare);
    end if;
    if v_found is null or v_found = '{}' then
        return;
    end if;

    for v_task in
        with again as materialized (
            select t.task_id, t.rank,
                   case when taskq.is_bound(
                                 t.avoids, t.due_at, t.failures, v_attempts, v_serving, v_now)
                        then t.avoids else '{}' end as avoids
              from unnest(v_found) as f (task_id)
              cross join lateral (
                  select t.task_id, (-t.priority)::bigint as rank, t.avoids, t.due_at, t.failures
                    from taskq.task t
                   where t.campaign_id = p_campaign
                     and t.task_id = f.task_id
                     and t.status::text = 'waiting'
                     and t.avoids is not null
                     for no key update skip locked
              ) t
             limit p_most
        )
        select a.task_id, a.rank, a.avoids from again a
        union all
        select p.task_id, p.rank, null from unnest(p_tasks, p_ranks) as p (task_id, rank)
         order by 2, 1
    loop
        -- To the first claim that is left and may have it.
        v_place := v_next;
        while v_hosts[v_place] = any (v_task.avoids) or v_place = any (places) loop
            v_place := v_place + 1;
        end loop;
        continue when v_place > p_most;
        tasks := tasks || v_task.task_id;
        ranks := ranks || v_task.rank;
        places := places || v_place;
        v_fresh := v_fresh + (v_task.avoids is null)::integer;
        while v_next = any (places) loop
            v_next := v_next + 1;
        end loop;
        exit when v_next > p_most;
    end loop;

    -- What pick() has found and nobody gets stays in front of the position.
    if v_fresh < cardinality(p_tasks) then
        v_hint[1:2] := case when v_fresh > 0 then array[p_ranks[v_fresh], p_tasks[v_fresh]]
                            else array[p_ranks[1], p_tasks[1] - 1] end;
    end if;
    if p_tasks is not null then
        v_hint[4] := (v_fresh < cardinality(tasks))::integer;
        v_setting := set_config(v_setting, v_hint::text, false);
    end if;
end
$$;
