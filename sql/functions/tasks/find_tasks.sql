-- find_tasks(campaign, filter, states, parts, payloads, tasks, after, limit): looks at the next tasks of a
-- campaign, in the order of their ids, and says which of them match a filter.
--
-- filter: see filter_path(), over an object of the task: key, state, priority, attempts, failures, losses; if
--     parts has 'attempt', exit_code, class and error of its last ended attempt (if it is done, of the
--     accepted one), host and site of the running attempt, else of that one; if it has 'recipe', that of the ended
--     attempt, see ran_recipe(); if it has 'payload' or 'result', these.
-- states: only tasks in these. payloads: whether they are returned. tasks: look only at those with these ids; null:
--     at all. after: the last id of the page before, 0 at first. limit: how many to look at.
-- Result: the tasks that match, and always the last one that was looked at; no row: there are no more.
--     looked: at how many. Other columns: see tasks().
--
-- What it reads is bounded by `limit`, whatever matches. Given tasks are looked up by key. If only failed tasks are wanted, it finds them by their
-- index; if only done ones are, by attempts; done ones among others, by specs; all else in spans, bundles and rows.
--
-- Index: that of task_state(); task_failed, task_pkey, bundle_task, span_pkey, attempt_pkey, spec_pkey,
-- session_pkey, recipe_pkey, progress_pkey. Plans: see tasks().
-- @roles reader
-- @standby yes
-- @gateway manager, paged, within 10 s
-- @hint compare fewer values with large arrays, look for fewer pieces of text
-- @plan generic by-key
create or replace function taskq.find_tasks(
    p_campaign bigint,
    p_filter jsonb,
    p_states text[],
    p_parts text[],
    p_payloads boolean,
    p_tasks bigint[],
    p_after bigint,
    p_limit integer
)
returns table (
    task_id bigint,
    matches boolean,
    looked bigint,
    key text,
    status taskq.task_status,
    priority smallint,
    attempt integer,
    failures smallint,
    losses smallint,
    due_at timestamptz,
    claimed_at timestamptz,
    host text,
    payload jsonb,
    progress double precision,
    progress_note text,
    share jsonb
)
language plpgsql stable
as $$
declare
    v_since constant timestamptz := case when 'recipe' = any (p_parts) then taskq.recipes_since(p_campaign) end;
    v_path constant jsonpath := taskq.filter_path(p_filter);
    v_variables constant jsonb := jsonb_build_object('f', p_filter);
    v_from constant text := case
        when p_tasks is not null then 'given'
        when p_states <@ '{failed}' then 'failed'
        when p_states <@ '{done}' then 'attempts'
        when 'done' = any (p_states) then 'specs'
        else 'others' end;
begin
    return query
        with page as materialized (
              (select k.task_id
                 from unnest(p_tasks) as k (task_id)
                where v_from = 'given'
                  and k.task_id > p_after
                order by k.task_id
                limit p_limit)
               union all
              (select t.task_id
                 from taskq.task t
                where v_from = 'failed'
                  and t.campaign_id = p_campaign
                  and t.task_id > p_after
                  and t.status = 'failed'
                order by t.campaign_id, t.task_id
                limit p_limit)
               union all
              (select distinct a.task_id
                 from (select a.task_id
                         from taskq.attempt a
                        where v_from = 'attempts'
                          and a.campaign_id = p_campaign
                          and a.task_id > p_after
                        order by a.campaign_id, a.task_id
                        limit p_limit) a)
               union all
              (select s.task_id
                 from taskq.spec s
                where v_from = 'specs'
                  and s.campaign_id = p_campaign
                  and s.task_id > p_after
                order by s.campaign_id, s.task_id
                limit p_limit)
               union all
              -- Spans in their order, and the specs of each in theirs, so the first found come first. A span of
              -- another status counts as one task, its last: so the page also ends after many of these.
              (select s.task_id
                 from (select n.next_id, n.last_id, n.status::text = any (p_states) as wanted
                         from taskq.span n
                        where v_from = 'others'
                          and p_states && '{waiting,cancelled}'
                          and n.campaign_id = p_campaign
                          and n.first_id >= taskq.span_at(p_campaign, p_after)
                        order by n.campaign_id, n.first_id
                       offset 0) n
                cross join lateral (
                      (select s.task_id
                         from taskq.spec s
                        where n.wanted
                          and s.campaign_id = p_campaign
                          and s.task_id >= greatest(n.next_id, p_after + 1)
                          and s.task_id <= n.last_id
                        order by s.campaign_id, s.task_id
                        limit p_limit)
                       union all
                      (select s.task_id
                         from taskq.spec s
                        where not n.wanted
                          and s.campaign_id = p_campaign
                          and s.task_id >= greatest(n.next_id, p_after + 1)
                          and s.task_id <= n.last_id
                        order by s.campaign_id desc, s.task_id desc
                        limit 1)) s
                limit p_limit)
               union all
              -- Bundles do not overlap either: of those that begin at or below `after`, only the last may go beyond
              -- it.
              (select k.task_id
                 from (select b.tasks
                         from taskq.bundle b
                        where v_from = 'others'
                          and 'working' = any (p_states)
                          and b.campaign_id = p_campaign
                          and b.first_id >= coalesce(
                                  (select b.first_id
                                     from taskq.bundle b
                                    where b.campaign_id = p_campaign
                                      and b.first_id <= p_after
                                    order by b.campaign_id desc, b.first_id desc
                                    limit 1), 0)
                        order by b.campaign_id, b.first_id
                       offset 0) b
                cross join lateral unnest(b.tasks) as k (task_id)
                where k.task_id > p_after
                limit p_limit)
               union all
              (select t.task_id
                 from taskq.task t
                where v_from = 'others'
                  and t.campaign_id = p_campaign
                  and t.task_id > p_after
                order by t.campaign_id, t.task_id
                limit p_limit)
               order by 1
               limit p_limit
        )
        select r.task_id, r.matches, (select count(*) from page), r.key, r.status, r.priority,
               r.attempt, r.failures, r.losses, r.due_at, r.claimed_at, h.host,
               case when r.matches and p_payloads then r.payload end, g.fraction, g.note,
               taskq.share_of(h.said, p_campaign, r.task_id)
          from (
              select p.task_id, s.key, s.payload, t.status,
                     coalesce(t.priority, s.priority) as priority, t.attempt, t.failures, t.losses,
                     t.due_at, t.claimed_at, t.session_id, t.lease_id,
                     case when t.status::text = any (p_states)
                          then coalesce(jsonb_path_match(
                              jsonb_build_object(
                                  'key', s.key,
                                  'state', t.status,
                                  'priority', coalesce(t.priority, s.priority),
                                  'attempts', t.attempt,
                                  'failures', t.failures,
                                  'losses', t.losses,
                                  'exit_code', a.exit_code,
                                  'class', a.error_class,
                                  'error', a.error,
                                  'host', e.host,
                                  'site', e.site,
                                  'recipe', a.recipe,
                                  'payload', case when 'payload' = any (p_parts) then s.payload end,
                                  'result', case when 'result' = any (p_parts) then a.result end),
                              v_path, v_variables, true), false)
                          else false end as matches
                from page p
               cross join lateral taskq.spec_of(p_campaign, p.task_id) s
               cross join lateral taskq.task_state(p_campaign, p.task_id) t
                left join lateral (
                   select a.exit_code, a.error_class, a.error, a.session_id,
                          case when a.outcome::text <> 'withdrawn' then a.result end as result,
                          taskq.ran_recipe(
                              a.recipe, a.outcome, a.ended_at, v_since,
                              (select taskq.reports_recipes(n.offers) from taskq.session_of(a.session_id) n)
                          ) as recipe
                     from taskq.attempt a
                    where p_parts && '{attempt,recipe,result}'
                      and t.attempt > 0
                      and a.campaign_id = p_campaign
                      and a.task_id = p.task_id
                    order by (a.outcome = 'done') desc, a.attempt desc
                    limit 1
               ) a on true
                left join lateral (
                   select e.host, e.site
                     from taskq.session e
                    where 'attempt' = any (p_parts)
                      and e.session_id = coalesce(t.session_id, a.session_id)
                   offset 0
               ) e on true
              offset 0
          ) r
          left join lateral taskq.session_of(r.session_id) h on r.matches
          left join lateral taskq.progress_of(p_campaign, r.task_id, r.lease_id) g
            on r.matches
           and r.lease_id is not null
         where r.matches
            or r.task_id = (select max(p.task_id) from page p)
         order by r.task_id;
end
$$;
