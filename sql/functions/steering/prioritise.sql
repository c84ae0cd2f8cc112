-- prioritise(campaign, tasks, priorities): gives tasks that wait or are delayed other priorities.
--
-- tasks: at most 1,000 ids, each once; neighbours cost least. priorities: one for each.
-- changed: how many got another priority; unchanged: how many had it already; others: tasks that are neither
--     waiting nor delayed, or do not exist; they stay as they are.
-- Error TQ400: too many tasks.
--
-- A task keeps its priority until it is done, in a row of its own: it leaves its span. Its spec keeps the
-- seeded one. Claims find tasks before their position in the same way as tasks that become waiting, see
-- pick().
--
-- Locks: the spans that tasks leave, see unspan(); then the rows of the tasks, in the order of task_id; waits for
-- them. Index: span_pkey, spec_pkey, task_pkey. Planned at each call, see
-- cancel().
-- @roles manager operator
-- @gateway manager
-- @repeat once
-- @act prioritise
-- @plan custom by-key
create or replace function taskq.prioritise(
    p_campaign bigint,
    p_tasks bigint[],
    p_priorities smallint[],
    out changed integer,
    out unchanged integer,
    out others integer
)
language plpgsql
as $$
declare
    v_tasks bigint[];
    v_priorities smallint[];
    v_leave boolean[];
begin
    perform taskq.demand_read_committed();
    if cardinality(p_tasks) > 1000 or cardinality(p_tasks) <> cardinality(p_priorities) then
        raise exception 'pass at most 1,000 tasks, with one priority each'
            using errcode = 'TQ400';
    end if;
    -- All but those in a span that has the priority; and whether they are in another.
    select array_agg(w.task_id order by w.task_id), array_agg(w.priority order by w.task_id),
           array_agg(n.priority is not null order by w.task_id)
      into v_tasks, v_priorities, v_leave
      from unnest(p_tasks, p_priorities) as w (task_id, priority)
      left join lateral taskq.span_of(p_campaign, w.task_id) n on n.status::text = 'waiting'
     where w.priority is distinct from n.priority;
    if true = any (v_leave) then
        perform taskq.unspan(
            p_campaign,
            array(select w.task_id from unnest(v_tasks, v_leave) as w (task_id, leaves)
                   where w.leaves),
            p_priorities => array(
                select w.priority from unnest(v_priorities, v_leave) as w (priority, leaves)
                 where w.leaves));
    end if;
    with held as materialized (
        select w.task_id, w.priority, t.priority <> w.priority as other,
               t.priority <> w.priority or w.leaves as changes
          from (select w.task_id, w.priority, w.leaves
                  from unnest(v_tasks, v_priorities, v_leave) as w (task_id, priority, leaves)
                offset 0) w
         cross join lateral (
               select t.priority
                 from taskq.task t
                where t.campaign_id = p_campaign
                  and t.task_id = w.task_id
                  and t.status::text in ('waiting', 'delayed')
                  for no key update) t
    ), moved as (
        -- All rows exist: this finds them by their keys, whatever is planned.
        insert into taskq.task as t (campaign_id, task_id, priority)
        select p_campaign, h.task_id, h.priority
          from held h
         where h.other
            on conflict (campaign_id, task_id) do update
           set priority = excluded.priority
    )
    select count(*) filter (where h.changes),
           cardinality(p_tasks) - coalesce(cardinality(v_tasks), 0)
               + count(*) filter (where not h.changes)
      into changed, unchanged
      from held h;
    others := cardinality(p_tasks) - changed - unchanged;
    perform taskq.note_move(p_campaign, 'prioritise', changed);
end
$$;
