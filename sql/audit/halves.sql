-- Each task has both a definition (spec) and a state, see the view state, and each attempt has a task.
--
-- Parameters, rows: see held.sql. Index: spec_pkey, task_pkey, attempt_pkey.
select coalesce(s.task_id, t.task_id, a.task_id) as task_id,
       format('of key and payload, standing, and attempts, there %%s only %%s',
              case when s.task_id is not null and a.task_id is not null then 'are' else 'is' end,
              concat_ws(' and ',
                        case when s.task_id is not null then 'key and payload' end,
                        case when t.task_id is not null then 'its standing' end,
                        case when a.task_id is not null then 'attempts' end)) as text
  from (
      select s.task_id
        from taskq.spec s
       where s.campaign_id = %(campaign)s
         and s.task_id > %(after)s
         and s.task_id <= %(upto)s
       order by s.campaign_id, s.task_id  -- has one index only
      offset 0
  ) s
  full join (
      select distinct t.task_id
        from taskq.states(%(campaign)s, %(after)s, %(upto)s) t
  ) t on t.task_id = s.task_id
  full join (
      select distinct a.task_id
        from taskq.attempt a
       where a.campaign_id = %(campaign)s
         and a.task_id > %(after)s
         and a.task_id <= %(upto)s
  ) a on a.task_id = coalesce(s.task_id, t.task_id)
 where s.task_id is null
    or t.task_id is null
 order by 1
