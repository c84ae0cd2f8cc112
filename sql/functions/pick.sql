-- pick(campaign, most, before, ahead): finds waiting tasks, highest priority first, then first seeded
-- first, and locks those that have a row, or takes them out of their span. A part of take() and
-- lease_ahead(), which pin the settings; not for clients.
--
-- before: null: all; a rank: only tasks of a smaller one, that is of a higher priority.
-- ahead: leave out what was leased ahead before and got lost, see expire_ahead().
-- tasks: their ids, in order; empty: none. ranks: their -priority. spans: the first id of the span that a
--     task was in; null: it has a row. What was in a span has no row now, and must get one, or a place
--     in a bundle, in this transaction.
--
-- Tasks that have failed before wait apart, see pick_again().
--
-- Locks: the rows of the tasks, and the spans, skipping locked ones. It waits for a span, a moment, only if all are
-- locked: a small campaign has few. Index: span_waiting, task_waiting, spec_pkey.
--
-- A claimed task leaves a dead entry in the index, and as long as any snapshot in the cluster can see the old row,
-- each claim would walk over all these entries. So the position behind the last claim is kept as a hint, for each
-- connection and campaign, in a setting; it serves any client that uses the connection next, and losing it does no
-- harm. A task that comes to wait with a row (it was handed back, or got a higher priority) is found once the hint is
-- dropped: if nothing is found behind it, or after fifty times what the last walk without a hint took, so that such
-- walks cost 2 %; that is half a second at least and 5 s at most.
--
-- The hint: rank and task of the last row; until when it may be used (microseconds; negative: since when a new one
-- is looked for); whether pick_again() has found something; rank and first id of the last span; the id of that span
-- up to which no row comes before its tasks, if usual_position() has looked.
create or replace function taskq.pick(
    p_campaign bigint,
    p_most integer,
    p_before integer default null,
    p_ahead boolean default false,
    out tasks bigint[],
    out ranks bigint[],
    out spans bigint[]
)
language plpgsql
as $$
declare
    v_now_us constant bigint := extract(epoch from clock_timestamp()) * 1000000;
    v_none bigint[] := array[-32768, 0, -v_now_us, 0, -32768, 0];
    v_setting text := 'taskq.position_' || p_campaign;
    v_hint bigint[] := nullif(current_setting(v_setting, true), '')::bigint[];
    v_hinted boolean := p_before is null
        and coalesce(v_now_us between v_hint[3] - 5000000 and v_hint[3], false);
    v_left integer := p_most;
    v_span record;
    v_found record;
begin
    tasks := '{}';
    ranks := '{}';
    spans := '{}';
    v_none[4] := coalesce(v_hint[4], 0);
    if not v_hinted then
        v_hint := v_none;
    end if;
    while v_left > 0 loop
        select s.first_id, s.next_id, s.last_id, (-s.priority)::bigint as rank into v_span
          from taskq.span s
         where s.campaign_id = p_campaign
           and s.status = 'waiting'
           and ((-s.priority), s.first_id) >= (v_hint[5], v_hint[6])
           and (-s.priority) < coalesce(p_before, 32768)
         order by s.campaign_id, (-s.priority), s.first_id
         limit 1
           for no key update skip locked;

        -- The rows that come before it.
        select array_agg(p.task_id) as tasks, array_agg(p.rank) as ranks into v_found
          from (
              select t.task_id, (-t.priority)::bigint as rank
                from taskq.task t
               where t.campaign_id = p_campaign
                 and t.status = 'waiting'
                 and t.avoids is null
                 and ((-t.priority), t.task_id) > (v_hint[1], v_hint[2])
                 and ((-t.priority), t.task_id)
                     < (coalesce(v_span.rank, coalesce(p_before, 32768)),
                        coalesce(v_span.next_id, 0))
                 and not (p_ahead and coalesce(t.session_id = 0, false))
               order by t.campaign_id, (-t.priority), t.task_id
               limit v_left
                 for no key update skip locked
          ) p;
        if v_found.tasks is not null then
            tasks := tasks || v_found.tasks;
            ranks := ranks || v_found.ranks;
            spans := spans || array_fill(null::bigint, array[cardinality(v_found.tasks)]);
            v_left := v_left - cardinality(v_found.tasks);
            v_hint[1:2] := array[ranks[cardinality(ranks)], tasks[cardinality(tasks)]];
        end if;
        exit when v_left = 0;

        if v_span.first_id is not null then
            select array_agg(d.task_id) as tasks into v_found
              from (
                  select s.task_id
                    from taskq.spec s
                   where s.campaign_id = p_campaign
                     and s.task_id >= v_span.next_id
                     and s.task_id <= v_span.last_id
                   order by s.campaign_id, s.task_id
                   limit v_left
              ) d;
            if v_found.tasks is null or v_found.tasks[v_left] is null
               or v_found.tasks[v_left] = v_span.last_id
            then
                delete from taskq.span s
                 where s.campaign_id = p_campaign
                   and s.first_id = v_span.first_id;
            else
                update taskq.span s
                   set next_id = v_found.tasks[v_left] + 1
                 where s.campaign_id = p_campaign
                   and s.first_id = v_span.first_id;
            end if;
            v_hint[5:6] := array[v_span.rank, v_span.first_id];
            if v_found.tasks is not null then
                tasks := tasks || v_found.tasks;
                ranks := ranks
                    || array_fill(v_span.rank, array[cardinality(v_found.tasks)]);
                spans := spans
                    || array_fill(v_span.first_id, array[cardinality(v_found.tasks)]);
                v_left := v_left - cardinality(v_found.tasks);
            end if;
        elsif v_hinted and tasks = '{}' then
            v_hinted := false;
            v_hint := v_none;
        elsif tasks = '{}' and taskq.await_span(p_campaign, p_before) then
            null;  -- somebody had one locked, and is done by now
        else
            exit;
        end if;
    end loop;
    if p_before is null then
        v_setting := taskq.keep_position(p_campaign, v_hint[1:6]);
    end if;
end
$$;
