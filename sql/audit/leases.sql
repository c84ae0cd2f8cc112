-- Each attempt of a task, including the running one, has its own lease, so that a report on one attempt
-- can never be taken for a report on another.
--
-- Parameters, rows: see held.sql. Index: attempt_pkey, task_pkey.
select h.task_id,
       format('its attempts %%s are under one lease, %%s',
              string_agg(h.attempt::text, ', ' order by h.attempt), h.lease_id) as text
  from (
      select a.task_id, a.attempt, a.lease_id
        from taskq.attempt a
       where a.campaign_id = %(campaign)s
         and a.task_id > %(after)s
         and a.task_id <= %(upto)s
       union all
      select t.task_id, t.attempt, t.lease_id
        from taskq.states(%(campaign)s, %(after)s, %(upto)s) t
       where t.status::text = 'working'
         and t.lease_id is not null
  ) h
 group by h.task_id, h.lease_id
having count(*) > 1
 order by h.task_id
