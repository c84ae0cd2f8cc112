-- A page of accepted results as one text, a line of JSON for each; no row: there are no more.
-- The members are put together as text: `json_build_object` takes a quarter longer.
-- @roles reader
-- @standby yes
-- @gateway no
select max(r.task_id) as last,
       string_agg(
           concat(
               '{"task":', r.task_id, ',"key":', to_json(r.key), ',"attempt":', r.attempt,
               ',"host":', to_json(r.host), ',"seconds":', extract(epoch from r.ended_at - r.claimed_at),
               ',"payload":', r.payload, ',"result":', coalesce(r.result, 'null'), '}'),
           e'\n' order by r.task_id) as lines
  from taskq.results(%(campaign)s, %(after)s, %(limit)s) r
having count(*) > 0
