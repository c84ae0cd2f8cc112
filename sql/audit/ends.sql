-- How attempts ended, as summed for the last days, equals the attempts themselves: how many by end and by the ten minutes
-- or the hour, and how long they ran. Once tasks were removed, the sums have more.
--
-- campaign. Rows: the ends that differ, in `text`; all of them, in `rows`.
-- Index: summed_pkey, attempt_pkey, campaign_pkey, usage_pkey, end_sum_pkey.
with times as (
    -- Whole hours, which neither of the bounds of thin_end_sums() divides.
    select date_trunc('hour', s.until - interval '6 days', 'UTC') as since, s.until from taskq.summed s where s.only_one
), summed as (
    select e.outcome, taskq.total(e.attempts) as attempts, taskq.total(e.run_ms) as run_ms
      from times t
      join taskq.end_sum e on e.since >= t.since
     where e.campaign_id = %(campaign)s
     group by e.outcome
), found as (
    select taskq.kind_of_end(a.outcome, a.refused) as outcome, count(*) as attempts,
           taskq.total(taskq.used_ms(a.phases, a.claimed_at, a.ended_at)) as run_ms
      from times t
      join taskq.attempt a on a.ended_at >= t.since and a.ended_at < t.until
     where a.campaign_id = %(campaign)s
     group by 1
), judged as (
    select coalesce(s.outcome, f.outcome) as outcome, coalesce(s.attempts, 0) as summed,
           coalesce(f.attempts, 0) as found,
           (coalesce(s.attempts, 0), coalesce(s.run_ms, 0))
           <> (coalesce(f.attempts, 0), coalesce(f.run_ms, 0)) as differs
      from summed s
      full join found f on f.outcome = s.outcome
)
select null::bigint as task_id,
       string_agg(format('%%s attempts that ended as %%s are in the sums of hosts, %%s are there, or their times differ',
                         j.summed, j.outcome, j.found), '; ' order by j.outcome)
           filter (where j.differs) as text,
       jsonb_build_object('summed', jsonb_object_agg(j.outcome, j.summed),
                          'found', jsonb_object_agg(j.outcome, j.found)) as rows
  from judged j
 where not exists (
           select
             from taskq.campaign c
             join taskq.usage u on u.path = c.path
            where c.campaign_id = %(campaign)s
              and u.campaign_id = -%(campaign)s)
having bool_or(j.differs)
