-- A task is hedged at most once: the lease of one attempt is ended in favour of a second one.
--
-- Parameters, rows: see held.sql. Index: attempt_pkey.
select a.task_id,
       format('its attempts %%s were hedged', string_agg(a.attempt::text, ', ' order by a.attempt)) as text
  from taskq.attempt a
 where a.campaign_id = %(campaign)s
   and a.task_id > %(after)s
   and a.task_id <= %(upto)s
   and (a.outcome::text = 'hedged' or a.outcome::text in ('done', 'withdrawn') and a.error_class = 'hedged')
 group by a.task_id
having count(*) > 1
 order by a.task_id
