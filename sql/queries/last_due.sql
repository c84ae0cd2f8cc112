-- For each campaign at or below a path that has some of the 1,000 delayed tasks of the queue that come due last: the
-- seconds until its last one is due. Index: task_delayed (backwards), campaign_pkey.
-- @roles reader
-- @standby yes
-- @gateway manager
with last_due as materialized (
    select t.campaign_id, t.due_at
      from taskq.task t
     where t.status = 'delayed'
     order by t.due_at desc
     limit 1000
)
select t.campaign_id, extract(epoch from t.due_at - clock_timestamp())::float8 as due_s
  from (
      select campaign_id, max(due_at) as due_at
        from last_due
       group by campaign_id
  ) t
 cross join lateral (
     select c.path from taskq.campaign c where c.campaign_id = t.campaign_id offset 0
 ) c
 where taskq.at_or_below(c.path, %(path)s)
