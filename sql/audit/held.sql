-- A working task has a lease, a session, and the time at which it was claimed.
--
-- Parameters of all checks of tasks: campaign; after, upto: check tasks with ids above `after` and up to
-- `upto`. Rows: task_id, and in `text` what is wrong.
-- Index: task_pkey; the status is compared as text, so that no scan of all working tasks is planned.
select t.task_id, 'it is working, but has no lease, no session or no time of its claim' as text
  from taskq.states(%(campaign)s, %(after)s, %(upto)s) t
 where t.status::text = 'working'
   and (t.lease_id is null or t.session_id is null or t.claimed_at is null)
 order by t.task_id
