-- A page of accepted results as one text, a line of JSON for each; no row: there are no more.
-- @roles reader
-- @standby yes
-- @gateway no
select max(r.task_id) as last,
       string_agg(
           json_build_object(
               'task', r.task_id, 'key', r.key, 'attempt', r.attempt, 'host', r.host,
               'seconds', extract(epoch from r.ended_at - r.claimed_at),
               'payload', r.payload, 'result', r.result)::text,
           e'\n' order by r.task_id) as lines
  from taskq.results(%(campaign)s, %(after)s, %(limit)s) r
having count(*) > 0
