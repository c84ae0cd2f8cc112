-- A claim counts towards each limit with at least the tasks of it that run: what has ended may still count, what runs
-- never counts for less, or more would start than may. The sum of a limit is that of its claims.
--
-- campaign. Rows: see counts.sql. A claim from before its campaign had the limit does not count. Index:
-- limit_claim_pkey, limit_total_pkey, and those of working_of_claim().
with claim as materialized (
    select k.campaign_id, k.name, k.session_id, k.campaigns, k.leases, k.counts, k.slots, k.tasks
      from taskq.limit_claim k
     where k.campaign_id in (0, %(campaign)s)
), counted as (
    select o.campaign_id, o.name, sum(o.kept) as kept, sum(o.found) as found
      from (
          select t.campaign_id, t.name, t.starts as kept, 0 as found
            from taskq.limit_total t
           where t.campaign_id in (0, %(campaign)s)
           union all
          select k.campaign_id, k.name, 0, least(k.slots, k.tasks)
            from claim k
      ) o
     where o.campaign_id <> 0
        or o.name = any ((select c.named_limits from taskq.campaign_of(%(campaign)s) c)::text[])
     group by o.campaign_id, o.name
), wrong as (
    select k.campaign_id, k.name, k.session_id,
           format('%%s tasks run of a claim of session %%s, and %%s of them count towards',
                  w.working, k.session_id, u.tasks) as text,
           jsonb_build_object('session', k.session_id, 'lease', u.lease_id, 'counted', u.tasks,
                              'running', w.working) as rows
      from claim k
     cross join lateral unnest(k.campaigns, k.leases, k.counts) as u (campaign_id, lease_id, tasks)
     cross join lateral taskq.working_of_claim(%(campaign)s, k.session_id, u.lease_id) w
     where u.campaign_id = %(campaign)s
       and w.working > u.tasks
     union all
    select c.campaign_id, c.name, 0, format('%%s starts are summed, and claims count for %%s, of', c.kept, c.found),
           jsonb_build_object('summed', c.kept, 'counted', c.found)
      from counted c
     where c.kept <> c.found
)
select null::bigint as task_id,
       w.text || case w.campaign_id when 0 then ' the limit ' else ' the limit at the site ' end || w.name as text,
       w.rows || jsonb_build_object(case w.campaign_id when 0 then 'limit' else 'site' end, w.name) as rows
  from wrong w
 order by w.campaign_id, w.name, w.session_id
