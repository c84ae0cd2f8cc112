-- The running_quota of a campaign is that of its owner's quota; null if it has no owner, or the owner no quota.
--
-- campaign. Rows: see counts.sql. Index: campaign_pkey, quota_pkey.
select null::bigint as task_id,
       format('%%s tasks of its owner may run by the quota, and by its own record %%s',
              coalesce(q.running::text, 'all'), coalesce(c.running_quota::text, 'all')) as text,
       jsonb_build_object('owner', c.owner, 'quota', q.running, 'campaign', c.running_quota) as rows
  from taskq.campaign c
 cross join lateral (select taskq.running_quota(c.owner) as running) q
 where c.campaign_id = %(campaign)s
   and c.running_quota is distinct from q.running
