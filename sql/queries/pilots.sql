-- All pilots, or one, that a manager's token is for, ordered by name, with the counts of their jobs by state. Index:
-- pilot_job_live, session_pilot.
-- @roles reader
-- @standby no
-- @gateway manager
-- @repeat safe
select p.pilot_id, p.name, p.key, p.path, p.driver, p.settings, p.status, p.paused_why, p.failures,
       extract(epoch from clock_timestamp() - p.failed_at)::double precision as failed_ago_s, p.trouble,
       greatest(0, extract(epoch from p.retry_at - clock_timestamp()))::double precision as retry_in_s,
       extract(epoch from clock_timestamp() - p.looked_at)::double precision as looked_ago_s,
       p.looked_from, p.created_at, j.submitting, j.queued, j.starting, j.serving
  from taskq.pilot p
 cross join lateral (
       select count(*) filter (where j.status = 'submitting') as submitting,
              count(*) filter (where j.status = 'queued') as queued,
              count(*) filter (where j.status = 'running' and not h.heard) as starting,
              count(*) filter (where j.status = 'running' and h.heard) as serving
         from taskq.pilot_job j
        cross join lateral (
              select j.heard_at is not null or count(*) > 0 as heard
                from taskq.session s
               where s.agent = j.name
                 and s.agent like 'taskq-%%') h
        where j.pilot_id = p.pilot_id
          and j.status <> 'ended') j
 where p.name = coalesce(%(pilot)s::text, p.name)
   and taskq.token_covers(p.path)
 order by p.name
