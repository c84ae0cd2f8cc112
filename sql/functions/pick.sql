-- pick(campaign, most, before, ahead): finds and locks waiting tasks, highest priority first, then first
-- seeded first. A part of take() and lease_ahead(), which pin the settings; not for clients.
--
-- before: null: as of the position hint; a rank: only tasks of a smaller one, that is of a higher
--     priority, without the hint.
-- ahead: leave out what was leased ahead before and got lost, see expire_ahead().
-- tasks: their ids, in order; null: none. ranks: their -priority. again: whether it is time to look for
--     tasks that have failed before as well, which wait apart: see pick_again(); it is, too, where there
--     are too few others.
--
-- Locks: the rows of the tasks, skipping locked ones. Index: task_waiting.
--
-- A claimed task leaves a dead entry in task_waiting, and as long as any snapshot in the cluster can
-- see the old row, each claim would walk over all of them. So the position behind the last claim is
-- kept as a hint, for each connection and campaign, in a setting; it is worth something to whichever
-- client uses the connection next, and nothing is lost with it. A task that becomes waiting before
-- the position (a retry, a higher priority) is found when the hint is dropped: when nothing is found
-- behind it, and after half a second, or fifty times what the last walk without a hint took, so that
-- such walks cost 2 %, but 5 s at most. Its fourth element: as long as pick_again() finds something, it
-- is asked each time, and else whenever the hint is dropped.
create or replace function taskq.pick(
    p_campaign bigint,
    p_most integer,
    p_before integer default null,
    p_ahead boolean default false,
    out tasks bigint[],
    out ranks bigint[],
    out again boolean
)
language plpgsql
as $$
declare
    v_now_us constant bigint := extract(epoch from clock_timestamp()) * 1000000;
    v_setting text := 'taskq.position_' || p_campaign;
    -- -priority and task_id of the last claim, and until when it may be used (microseconds).
    v_hint bigint[] := nullif(current_setting(v_setting, true), '')::bigint[];
    v_hinted boolean := coalesce(v_now_us between v_hint[3] - 5000000 and v_hint[3], false);
begin
    again := p_before is null and (not v_hinted or coalesce(v_hint[4] = 1, false));
    if p_before is not null then
        select array_agg(p.task_id), array_agg(p.rank)
          into tasks, ranks
          from (
              select t.task_id, (-t.priority)::bigint as rank
                from taskq.task t
               where t.campaign_id = p_campaign
                 and t.status = 'waiting'
                 and t.avoids is null
                 and (-t.priority) < p_before
                 and not (p_ahead and coalesce(t.session_id = 0, false))
               order by t.campaign_id, (-t.priority), t.task_id
               limit p_most
                 for no key update skip locked
          ) p;
        return;
    end if;

    loop
        if not v_hinted then
            v_hint := array[-32768, 0];
        end if;
        select array_agg(p.task_id), array_agg(p.rank)
          into tasks, ranks
          from (
              select t.task_id, (-t.priority)::bigint as rank
                from taskq.task t
               where t.campaign_id = p_campaign
                 and t.status = 'waiting'
                 and t.avoids is null
                 and ((-t.priority), t.task_id) > (v_hint[1], v_hint[2])
                 and not (p_ahead and coalesce(t.session_id = 0, false))
               order by t.campaign_id, (-t.priority), t.task_id
               limit p_most
                 for no key update skip locked
          ) p;
        if not v_hinted then
            v_hint[3] := extract(epoch from clock_timestamp()) * 1000000;
            v_hint[3] := v_hint[3]
                + least(5000000, greatest(500000, 50 * (v_hint[3] - v_now_us)));
        end if;
        exit when tasks is not null or not v_hinted;
        v_hinted := false;
        again := true;
    end loop;
    again := again or cardinality(tasks) < p_most;
    if tasks is not null then
        v_hint := array[ranks[cardinality(ranks)], tasks[cardinality(tasks)], v_hint[3]];
        v_setting := set_config(v_setting, v_hint::text, false);
    end if;
end
$$;
