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
-- It begins behind the connection's last claim, see hint(), and keeps the position behind this one.
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
    v_new bigint[] := taskq.new_hint(-32768, 0);
    v_hint bigint[] := taskq.position_hint(p_campaign);
    v_hinted boolean := p_before is null and coalesce(taskq.is_fresh(v_hint), false);
    v_setting text;
    v_left integer := p_most;
    v_span record;
    v_found record;
begin
    tasks := '{}';
    ranks := '{}';
    spans := '{}';
    v_new[taskq.hint('again')] := coalesce(v_hint[taskq.hint('again')], 0);
    if not v_hinted then
        v_hint := v_new;
    end if;
    while v_left > 0 loop
        select s.first_id, s.next_id, s.last_id, (-s.priority)::bigint as rank into v_span
          from taskq.span s
         where s.campaign_id = p_campaign
           and s.status = 'waiting'
           and ((-s.priority), s.first_id) >= (v_hint[taskq.hint('span_rank')], v_hint[taskq.hint('span')])
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
                 and ((-t.priority), t.task_id)
                     > (v_hint[taskq.hint('row_rank')], v_hint[taskq.hint('row')])
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
            v_hint[taskq.hint('row_rank')] := ranks[cardinality(ranks)];
            v_hint[taskq.hint('row')] := tasks[cardinality(tasks)];
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
            v_hint[taskq.hint('span_rank')] := v_span.rank;
            v_hint[taskq.hint('span')] := v_span.first_id;
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
            v_hint := v_new;
        elsif tasks = '{}' and taskq.await_span(p_campaign, p_before) then
            null;  -- somebody had one locked, and is done by now
        else
            exit;
        end if;
    end loop;
    if p_before is null then
        v_setting := taskq.keep_position(p_campaign, v_hint[: taskq.hint('span')]);
    end if;
end
$$;
