-- Rows of some tasks and their attempts, without payloads and results. Found by key, see tasks().
-- @roles owner
select w.task_id,
       jsonb_build_object(
           'key', (select s.key from taskq.spec_of(%(campaign)s, w.task_id) s),
           'task', (
               select to_jsonb(t)
                 from taskq.states(%(campaign)s, w.task_id - 1, w.task_id) t
                limit 1),
           'attempts', (
               select coalesce(
                          jsonb_agg(to_jsonb(a) - array['result', 'tail', 'phases', 'error']
                                    order by a.attempt), '[]')
                 from taskq.attempt a
                where a.campaign_id = %(campaign)s
                  and a.task_id = w.task_id)) as rows
  from unnest(%(tasks)s::bigint[]) as w (task_id)
