-- A claim counts towards each named limit with at least the tasks of it that run: what has ended may still count, what
-- runs never counts for less, or more would start than may.
--
-- campaign. Rows: see counts.sql. A claim from before its campaign named the limit does not count. Index:
-- limit_claim_pkey, and those of working_of_claim().
select null::bigint as task_id,
       format('%%s tasks run of a claim of session %%s, and %%s of them count towards the limit %%s',
              w.working, k.session_id, k.tasks, k.name) as text,
       jsonb_build_object('limit', k.name, 'session', k.session_id, 'lease', k.lease_id, 'counted', k.tasks,
                          'running', w.working) as rows
  from taskq.named_limit l
 cross join lateral (
     select k.name, k.session_id, k.lease_id, k.tasks
       from taskq.limit_claim k
      where k.name = l.name
        and k.campaign_id = %(campaign)s
     offset 0
 ) k
 cross join lateral taskq.working_of_claim(%(campaign)s, k.session_id, k.lease_id) w
 where w.working > k.tasks
 order by k.name, k.session_id
