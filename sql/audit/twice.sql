-- Each task stands in one place: in a span, in a bundle, in a row of its own, or done.
--
-- Parameters, rows: see held.sql. Index: task_pkey, bundle_task, span_pkey, spec_pkey, attempt_pkey.
select t.task_id,
       format('it stands in several places, as %%s',
              string_agg(t.status::text, ' and ' order by t.status)) as text
  from taskq.states(%(campaign)s, %(after)s, %(upto)s) t
 group by t.task_id
having count(*) > 1
 order by t.task_id
