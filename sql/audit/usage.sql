-- What is summed of a campaign equals its attempts that ended before the sums were made, by end: how many, and how long
-- they ran. Once tasks were removed, the sums have more.
--
-- campaign. Rows: the ends that differ, in `text`; all of them, in `rows`.
-- Index: summed_pkey, attempt_pkey, campaign_pkey, usage_pkey.
with kept as (
    select u.campaign_id, u.outcome, u.attempts, u.run_ms
      from taskq.campaign c
      join taskq.usage u on u.path = c.path
     where c.campaign_id = %(campaign)s
       and u.campaign_id in (%(campaign)s, -%(campaign)s)
), summed as (
    select k.outcome, taskq.total(k.attempts) as attempts, taskq.total(k.run_ms) as run_ms
      from kept k
     group by k.outcome
), found as (
    select taskq.end_of(a.outcome) as outcome, count(*) as attempts,
           taskq.total(taskq.used_ms(a.phases, a.claimed_at, a.ended_at)) as run_ms
      from taskq.attempt a
     where a.campaign_id = %(campaign)s
       and a.ended_at < (select s.until from taskq.summed s where s.only_one)
     group by taskq.end_of(a.outcome)
), compared as (
    select coalesce(s.outcome, f.outcome) as outcome, coalesce(s.attempts, 0) as summed,
           coalesce(s.run_ms, 0) as summed_ms, coalesce(f.attempts, 0) as found,
           coalesce(f.run_ms, 0) as found_ms
      from summed s
      full join found f on f.outcome = s.outcome
), judged as (
    select c.*, (c.summed, c.summed_ms) is distinct from (c.found, c.found_ms) as differs from compared c
)
select null::bigint as task_id,
       string_agg(format('%%s attempts that ended as %%s are summed with %%s ms, %%s with %%s ms are there',
                         j.summed, j.outcome, j.summed_ms, j.found, j.found_ms), '; ' order by j.outcome)
           filter (where j.differs) as text,
       jsonb_build_object('summed', jsonb_object_agg(j.outcome, array[j.summed, j.summed_ms]),
                          'found', jsonb_object_agg(j.outcome, array[j.found, j.found_ms])) as rows
  from judged j
 where not exists (select from kept k where k.campaign_id < 0)
having bool_or(j.differs)
