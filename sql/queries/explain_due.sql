-- When the first of the delayed tasks at and below a path come due; null: none of them is among the 1,000
-- of the queue that come due first. Index: task_delayed, campaign_pkey.
-- @roles reader
-- @standby yes
-- @gateway manager
with first_due as materialized (
    select t.campaign_id, t.due_at
      from taskq.task t
     where t.status = 'delayed'
     order by t.due_at
     limit 1000
)
select min(t.due_at) as due_at
  from first_due t
 cross join lateral (
     select c.path from taskq.campaign c where c.campaign_id = t.campaign_id offset 0
 ) c
 where taskq.at_or_below(c.path, %(path)s)
