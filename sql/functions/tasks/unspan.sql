-- unspan(campaign, tasks, status, priorities): gives tasks that are in a span of a status a row each, so that they
-- can change apart from the rest of their span. A part of cancel(), retry() and prioritise(); not for clients.
--
-- The other tasks of their spans go into spans again, as large as possible: so a change of some of very many
-- leaves the rest packed.
-- priorities: of each of the tasks; null: those of their specs.
--
-- If there are such spans, calls for one campaign follow each other: a call that waited for a span that
-- another splits would find it gone, and not see the new ones. Claims split no span and need no such order.
--
-- Locks: with such spans an advisory lock for the campaign until the transaction ends; the spans, in the order of
-- their first id; waits for them. Both before any bundle and any row of a task. Index: span_pkey, spec_pkey.
create or replace function taskq.unspan(
    p_campaign bigint, p_tasks bigint[], p_status taskq.task_status default 'waiting',
    p_priorities smallint[] default null)
returns void
language plpgsql
as $$
declare
    v_span record;
    v_tasks bigint[];
    v_priorities smallint[];
    -- The range of spans that may hold the tasks.
    v_first constant bigint := taskq.span_at(
        p_campaign, (select min(u.task_id) from unnest(p_tasks) as u (task_id)));
    v_last constant bigint := (select max(u.task_id) from unnest(p_tasks) as u (task_id));
begin
    if (
        select true
          from taskq.span s
         where s.campaign_id = p_campaign
           and s.first_id >= v_first
           and s.first_id <= v_last
           and s.status::text = p_status::text
         order by s.campaign_id, s.first_id
         limit 1) is not true
    then
        return;
    end if;
    perform pg_advisory_xact_lock(hashtext('taskq.unspan'), hashint8(p_campaign));
    -- In a snapshot taken after the lock. The spans that v_first was split into meanwhile begin no lower.
    for v_span in
        select s.first_id, s.next_id, s.last_id
          from taskq.span s
         where s.campaign_id = p_campaign
           and s.first_id >= v_first
           and s.first_id <= v_last
           and s.status::text = p_status::text
           and s.first_id in (
                   select n.first_id
                     from unnest(p_tasks) as u (task_id)
                    cross join lateral taskq.span_of(p_campaign, u.task_id) n)
         order by s.campaign_id, s.first_id
           for no key update
    loop
        select array_agg(u.task_id order by u.task_id), array_agg(u.priority order by u.task_id)
          into v_tasks, v_priorities
          from unnest(p_tasks, p_priorities) as u (task_id, priority)
         where u.task_id between v_span.next_id and v_span.last_id;
        continue when v_tasks is null;  -- this call waited for a claim, which took them
        delete from taskq.span s
         where s.campaign_id = p_campaign
           and s.first_id = v_span.first_id;
        perform taskq.pack(
            p_campaign, v_span.next_id - 1, v_span.last_id, v_tasks, 1, v_priorities, p_status);
    end loop;
end
$$;
