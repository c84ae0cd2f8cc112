-- A claim counts towards each named limit with at least the tasks of it that run: what has ended may still count, what
-- runs never counts for less, or more would start than may.
--
-- campaign. Rows: see counts.sql. A claim from before its campaign named the limit does not count. Index:
-- limit_claim_pkey, and those of working_of_claim().
select null::bigint as task_id,
       format('%%s tasks run of a claim of session %%s, and %%s of them count towards the limit %%s',
              w.working, k.session_id, u.tasks, k.name) as text,
       jsonb_build_object('limit', k.name, 'session', k.session_id, 'lease', u.lease_id, 'counted', u.tasks,
                          'running', w.working) as rows
  from taskq.named_limit l
 cross join lateral (
     select k.name, k.session_id, k.campaigns, k.leases, k.counts
       from taskq.limit_claim k
      where k.name = l.name
     offset 0
 ) k
 cross join lateral unnest(k.campaigns, k.leases, k.counts) as u (campaign_id, lease_id, tasks)
 cross join lateral taskq.working_of_claim(%(campaign)s, k.session_id, u.lease_id) w
 where u.campaign_id = %(campaign)s
   and w.working > u.tasks
 order by k.name, k.session_id
