-- tasks(campaign, status, after, limit): a page of the tasks of a campaign, in the order of their ids.
--
-- status: null: all. after: the last id of the page before, 0 at first.
-- Result: `limit` rows at most; none: there are no more. due_at: of a delayed task. claimed_at, host:
--     of the attempt that runs, if one does. progress (from 0 to 1), progress_note: how far it is, if it says so.
--     share: what it has of its node, see share_of().
--
-- It shows no lease. Index: the one of the place that holds tasks of the status, see
-- migrations/0002_tasks.sql: task_failed for the failed, task_pkey, bundle_task, span_pkey, attempt_pkey; of
-- all, spec_pkey; progress_pkey. For other statuses of tasks with rows it goes through all rows of the campaign.
--
-- One plan, whatever statistics say, since they do not know a campaign that was seeded later: the page is cut first,
-- and what belongs to each task is found by key, see spec_of().
-- @roles reader
-- @standby yes
-- @gateway manager, paged
-- @plan generic by-key
create or replace function taskq.tasks(
    p_campaign bigint,
    p_status taskq.task_status,
    p_after bigint,
    p_limit integer
)
returns table (
    task_id bigint,
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
begin
    return query
        select p.task_id, s.key, t.status, coalesce(t.priority, s.priority), t.attempt, t.failures,
               t.losses, t.due_at, t.claimed_at, h.host, s.payload, g.fraction, g.note,
               taskq.share_of(h.said, p_campaign, p.task_id)
          from (
              -- Spans in their order, and the specs of each in theirs, so the first found come first.
              (select s.task_id
                 from (select s.next_id, s.last_id
                         from taskq.span s
                        where p_status in ('waiting', 'cancelled')
                          and s.campaign_id = p_campaign
                          and s.first_id >= taskq.span_at(p_campaign, p_after)
                          and s.status = p_status
                        order by s.campaign_id, s.first_id
                       offset 0) n
                cross join lateral (
                      select s.task_id
                        from taskq.spec s
                       where s.campaign_id = p_campaign
                         and s.task_id >= greatest(n.next_id, p_after + 1)
                         and s.task_id <= n.last_id
                       order by s.campaign_id, s.task_id
                       limit p_limit) s
                limit p_limit)
               union all
              (select k.task_id
                 from taskq.bundle b
                cross join lateral unnest(b.tasks) as k (task_id)
                where p_status = 'working'
                  and b.campaign_id = p_campaign
                  and k.task_id > p_after
                order by k.task_id
                limit p_limit)
               union all
              (select t.task_id
                 from taskq.task t
                where p_status not in ('failed', 'done')
                  and t.campaign_id = p_campaign
                  and t.task_id > p_after
                  and t.status = p_status
                order by t.campaign_id, t.task_id
                limit p_limit)
               union all
              (select t.task_id
                 from taskq.task t
                where p_status = 'failed'
                  and t.campaign_id = p_campaign
                  and t.task_id > p_after
                  and t.status = 'failed'
                order by t.campaign_id, t.task_id
                limit p_limit)
               union all
              (select a.task_id
                 from taskq.attempt a
                where p_status = 'done'
                  and a.campaign_id = p_campaign
                  and a.task_id > p_after
                  and a.outcome = 'done'
                order by a.campaign_id, a.task_id
                limit p_limit)
               union all
              (select s.task_id
                 from taskq.spec s
                where p_status is null
                  and s.campaign_id = p_campaign
                  and s.task_id > p_after
                order by s.campaign_id, s.task_id
                limit p_limit)
               order by 1
               limit p_limit
          ) p
         cross join lateral taskq.spec_of(p_campaign, p.task_id) s
          cross join lateral taskq.task_state(p_campaign, p.task_id) t
          left join lateral taskq.session_of(t.session_id) h on true
          left join lateral taskq.progress_of(p_campaign, p.task_id, t.lease_id) g
            on t.lease_id is not null
         order by p.task_id;
end
$$;
