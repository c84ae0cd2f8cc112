-- states(campaign, after, upto): the rows of the view `state` of tasks with ids above `after` and up to `upto`. The
-- cost grows with these tasks, whatever is known of the campaign: of a view, the planner may compare each task of a
-- page with each span of the campaign. A part of the audit; inlined into its statements.
-- Index: task_pkey, bundle_task, span_pkey, spec_pkey, attempt_pkey.
create or replace function taskq.states(p_campaign bigint, p_after bigint, p_upto bigint)
returns setof taskq.state
language sql stable
as $$
    select b.*
      from taskq.state_beyond_spans b
     where b.campaign_id = p_campaign
       and b.task_id > p_after
       and b.task_id <= p_upto
     union all
    select p_campaign, s.task_id, n.status, null, null, null, null, 0, 0, 0, null
      from taskq.span n
     cross join lateral (
           select s.task_id
             from taskq.spec s
            where s.campaign_id = p_campaign
              and s.task_id between greatest(n.next_id, p_after + 1) and least(n.last_id, p_upto)
            order by s.campaign_id, s.task_id  -- has one index only
           offset 0) s  -- a walk for each span
     where n.campaign_id = p_campaign
       and n.last_id > p_after
       and n.next_id <= p_upto
$$;
