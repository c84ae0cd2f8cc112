-- pick_again(campaign, sessions, first, tasks, places): finds and locks waiting tasks that have failed or
-- were lost before, for agents that may have them. A part of take() and lease_ahead(), which pin the
-- settings; not for clients.
--
-- sessions: the claiming sessions, one element for each wanted task; null: the pool, which may hand a task to
--     anybody. first: only tasks that come before all that pick() would find: of higher priority, or seeded
--     earlier. tasks, places: the tasks picked already, and the elements that they go to.
-- tasks, ranks, places: what is to be claimed, in order, its -priority, and for which element of
--     `sessions`; empty: none. others: false: pick() has nothing to find, so a call without `first` finds no more.
--
-- A task that failed on a host, or was lost there again and alone, see give_back(), is not tried there while
-- another host serves the campaign, see hosts_serving(): a host on which everything fails would else use up
-- all attempts of its tasks. That holds for two minutes after it was due, since the others may be busy, and
-- for a day if one more failure fails the task. If it avoids all hosts that serve it, any may have it.
--
-- One of the tasks that were lost together may have killed the agent. So lost tasks are tried apart: a task that was
-- lost n times shares an agent with other lost ones only in 1 / 2^n of the slots, and with none when one more loss
-- may fail it, see give_back(). Where many tasks have one start they are divided by starts, see share_of_lost(): else a
-- dead node would cost as many starts as it had tasks. Tasks that were never lost may share its agent, so no slot
-- idles as long as there are any. The pool gets no lost tasks: nobody knows which agents would get them.
--
-- Such tasks wait in an index of their own. A walk over at most 1,000 of them takes place when a connection's
-- position hint is dropped, see hint(); with each claim as long as something is found behind no more than 64 that the
-- claiming agents must leave to others; and if there is nothing else. So a claim of what nobody has tried never walks
-- over them, and many that a host must leave cost its claims a walk now and then.
--
-- Locks: the rows of the tasks, skipping locked ones. Index: task_waiting_again, task_waiting,
-- span_waiting, task_pkey, session_pkey, session_host.
create or replace function taskq.pick_again(
    p_campaign bigint,
    p_sessions bigint[],
    p_first boolean,
    p_tasks bigint[] default '{}',
    p_places integer[] default '{}',
    p_most integer default null,
    out tasks bigint[],
    out ranks bigint[],
    out places integer[],
    out others boolean
)
language plpgsql
as $$
declare
    v_walk constant integer := 1000;
    -- More than are wanted, as others may be locking the first ones.
    v_spare constant integer := 64;
    v_now constant timestamptz := clock_timestamp();
    v_most constant integer := coalesce(p_most, cardinality(p_sessions)) - cardinality(p_places);
    v_hint bigint[];
    v_again integer;
    v_setting text;
    v_head_rank bigint := 32768;
    v_head_task bigint := 0;
    v_attempts integer;
    v_last integer;
    v_batch integer;
    v_serving integer[];
    v_hosts integer[];
    v_slots integer[];
    -- For each session, by element: how many lost tasks it has, and may have.
    v_suspects integer[];
    v_shares integer[];
    v_got smallint[];
    v_got_for bigint[];
    v_found bigint[];
    v_lost integer := 0;
    v_task record;
    v_next integer := 1;
    v_place integer;
begin
    tasks := '{}';
    ranks := '{}';
    places := '{}';
    others := true;
    if v_most > 0 and exists (
        select from taskq.task t
         where t.campaign_id = p_campaign
           and t.status = 'waiting'
           and t.avoids is not null
    ) then
        -- What pick() will find first, or something behind it.
        if p_first then
            select h.rank, h.task_id into v_head_rank, v_head_task
              from (
                  (select (-s.priority)::bigint as rank, s.next_id as task_id
                     from taskq.span s
                    where s.campaign_id = p_campaign
                      and s.status = 'waiting'
                    order by s.campaign_id, (-s.priority), s.first_id
                    limit 1)
                   union all
                  (select (-t.priority)::bigint, t.task_id
                     from taskq.task t
                    where t.campaign_id = p_campaign
                      and t.status = 'waiting'
                      and t.avoids is null
                    order by t.campaign_id, (-t.priority), t.task_id
                    limit 1)
              ) h
             order by h.rank, h.task_id
             limit 1;
            others := v_head_rank is not null;
        end if;
        select c.max_attempts, least(c.max_losses, c.max_lost_hosts) - 1,
               coalesce((c.handler ->> 'batch')::integer, 1)
          into v_attempts, v_last, v_batch
          from taskq.campaign c
         where c.campaign_id = p_campaign;
        -- One more host than a task can avoid by failures, losses and a hedge.
        v_serving := taskq.hosts_serving(p_campaign, least(v_attempts + v_last + 1, 17));
        -- The host of each claim's session; take() has refused claims without a session.
        v_hosts := array(
            select coalesce((select hashtext(s.host)
                               from taskq.session s
                              where s.session_id = e.session_id), 0)
              from unnest(p_sessions) with ordinality as e (session_id, ord)
             order by e.ord);
        -- The losses of tasks that were picked for these claims already.
        select array_agg(t.losses), array_agg(p_sessions[g.place])
          into v_got, v_got_for
          from unnest(p_tasks, p_places) as g (task_id, place)
         cross join lateral (
               select t.losses
                 from taskq.task t
                where t.campaign_id = p_campaign
                  and t.task_id = g.task_id
                  and t.losses > 0
               offset 0) t;
        select array_agg(coalesce(s.slots, 1) order by e.ord),
               array_agg(h.suspects order by e.ord),
               array_agg(coalesce(h.share, s.slots * v_batch, v_batch) order by e.ord)
          into v_slots, v_suspects, v_shares
          from unnest(p_sessions) with ordinality as e (session_id, ord)
          left join taskq.session s on s.session_id = e.session_id
         cross join lateral (
               select count(*)::integer as suspects,
                      min(taskq.share_of_lost(l.losses, s.slots, v_last, v_batch)) as share
                 from (
                     select t.losses
                       from taskq.task t
                      where t.session_id = e.session_id
                        and t.status = 'working'
                        and t.losses > 0
                     union all
                     select g.losses
                       from unnest(v_got, v_got_for) as g (losses, session_id)
                      where g.session_id = e.session_id) l
               offset 0) h;
        select array_agg(f.task_id order by f.rank, f.task_id), count(*) filter (where f.losses > 0)
          into v_found, v_lost
          from (
            select w.task_id, w.rank, w.losses
              from (
                  select t.task_id, (-t.priority) as rank, t.avoids, t.due_at, t.failures,
                         t.session_id, t.losses
                    from taskq.task t
                   where t.campaign_id = p_campaign
                     and t.status = 'waiting'
                     and t.avoids is not null
                     and ((-t.priority), t.task_id)
                         < (coalesce(v_head_rank, 32768), coalesce(v_head_task, 0))
                   order by t.campaign_id, (-t.priority), t.task_id
                   limit v_walk
              ) w
             where (not v_hosts <@ w.avoids
                    or not taskq.must_avoid(
                           w.avoids, w.due_at, w.failures, v_attempts, v_serving, v_now))
               and (p_sessions is not null or coalesce(w.session_id <> 0, true))
               and (w.losses = 0
                    or exists (
                        select from unnest(v_suspects, v_shares, v_slots) as e (has, may, slots)
                         where e.has < least(
                                   e.may, taskq.share_of_lost(w.losses, e.slots, v_last, v_batch))))
               and w.task_id <> all (p_tasks)
             order by w.rank, w.task_id
             limit v_most + v_spare) f;
    end if;

    for v_task in
        select t.task_id, t.rank, t.losses,
               case when taskq.must_avoid(
                             t.avoids, t.due_at, t.failures, v_attempts, v_serving, v_now)
                    then t.avoids else '{}' end as avoids
          from unnest(v_found) with ordinality as f (task_id, ord)
          cross join lateral (
              select t.task_id, (-t.priority)::bigint as rank, t.avoids, t.due_at, t.failures,
                     t.losses
                from taskq.task t
               where t.campaign_id = p_campaign
                 and t.task_id = f.task_id
                 and t.status::text = 'waiting'
                 and t.avoids is not null
                 for no key update skip locked
          ) t
         order by f.ord
         limit v_most + v_lost  -- lost ones may be passed by; of the others none is locked in vain
    loop
        exit when cardinality(tasks) = v_most;
        -- To the first claim that is left and may have it.
        while v_next = any (p_places || places) loop
            v_next := v_next + 1;
        end loop;
        v_place := v_next;
        while v_hosts[v_place] = any (v_task.avoids) or v_place = any (p_places || places)
              or v_task.losses > 0
                 and v_suspects[v_place] >= least(
                         v_shares[v_place],
                         taskq.share_of_lost(v_task.losses, v_slots[v_place], v_last, v_batch))
        loop
            v_place := v_place + 1;
        end loop;
        continue when v_place > v_most + cardinality(p_places);
        if v_task.losses > 0 then
            select array_agg(e.has + (e.session_id = p_sessions[v_place])::integer order by e.ord),
                   array_agg(
                       case when e.session_id = p_sessions[v_place]
                            then least(
                                e.may,
                                taskq.share_of_lost(v_task.losses, e.slots, v_last, v_batch))
                            else e.may end
                       order by e.ord)
              into v_suspects, v_shares
              from unnest(p_sessions, v_suspects, v_shares, v_slots)
                   with ordinality as e (session_id, has, may, slots, ord);
        end if;
        tasks := tasks || v_task.task_id;
        ranks := ranks || v_task.rank;
        places := places || v_place;
    end loop;

    -- Whether to look with the next claim: something is found, and not behind many that these agents must leave.
    v_again := (tasks <> '{}' and not exists (
        select from taskq.task t
         where t.campaign_id = p_campaign
           and t.status = 'waiting'
           and t.avoids is not null
           and ((-t.priority), t.task_id) < (ranks[1], tasks[1])
         order by t.campaign_id, (-t.priority), t.task_id
        offset v_spare))::integer;
    v_hint := coalesce(taskq.position_hint(p_campaign), taskq.new_hint(-32768, 0));
    if v_hint[taskq.hint('again')] <> v_again then
        v_hint[taskq.hint('again')] := v_again;
        v_setting := set_config('taskq.position_' || p_campaign, v_hint::text, false);
    end if;
end
$$;
