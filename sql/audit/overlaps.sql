-- No attempt of a task began before the previous one had ended: one lease at a time. A lost or hedged attempt
-- whose result was salvaged keeps the class of its loss; its lease had ended long before that.
--
-- Parameters, rows: see held.sql. Index: attempt_pkey, task_pkey.
select h.task_id,
       format('attempt %%s began at %%s, before attempt %%s had ended at %%s',
              h.attempt, h.claimed_at, h.former, h.former_ended_at) as text
  from (
      select e.task_id, e.attempt, e.claimed_at,
             lag(e.attempt) over before as former,
             lag(e.ended_at) over before as former_ended_at,
             lag(e.salvaged) over before as former_salvaged
        from (
            select a.task_id, a.attempt, a.claimed_at, a.ended_at,
                   a.outcome::text in ('done', 'withdrawn')
                   and a.error_class is not null
                       as salvaged
              from taskq.attempt a
             where a.campaign_id = %(campaign)s
               and a.task_id > %(after)s
               and a.task_id <= %(upto)s
             union all
            select t.task_id, t.attempt, t.claimed_at, null, false
              from taskq.states(%(campaign)s, %(after)s, %(upto)s) t
             where t.status::text = 'working'
        ) e
      window before as (partition by e.task_id order by e.attempt)
  ) h
 where h.claimed_at < h.former_ended_at
   and not h.former_salvaged
 order by h.task_id
