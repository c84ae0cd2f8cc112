-- Attempts of a task are numbered 1, 2, 3 ... without a gap, and the task has the last number; a working task has
-- that of its running attempt, which has no row yet.
--
-- Parameters, rows: see held.sql. Index: task_pkey, attempt_pkey.
select t.task_id,
       format('it is %%s in its attempt %%s; attempts that ended: %%s%%s', t.status, t.attempt,
              coalesce(a.ended, 0), ', numbered from ' || a.first || ' to ' || a.last) as text
  from taskq.states(%(campaign)s, %(after)s, %(upto)s) t
  left join (
      select a.task_id, count(*) as ended, min(a.attempt) as first, max(a.attempt) as last
        from taskq.attempt a
       where a.campaign_id = %(campaign)s
         and a.task_id > %(after)s
         and a.task_id <= %(upto)s
       group by a.task_id
  ) a on a.task_id = t.task_id
 where (coalesce(a.ended, 0) <> t.attempt - (t.status::text = 'working')::integer
        or coalesce(a.last, 0) <> coalesce(a.ended, 0)
        or a.first <> 1)
 order by t.task_id
