-- The jobs of a pilot, latest first: all that are live, and others up to a number. at_work: whether the
-- agent's session is open; left_why: why the last one ended; attempts: how many ran there, as its agents said when
-- they left; null: not known of all of them. Index: pilot_job_pkey, session_pilot.
-- @roles reader
-- @standby no
-- @gateway manager, up to 1000000
-- @repeat safe
with chosen as (
    select * from taskq.pilot_job j where j.pilot_id = %(pilot)s and j.status <> 'ended'
    union all
    (select * from taskq.pilot_job j
      where j.pilot_id = %(pilot)s and j.status = 'ended'
      order by j.number desc
      limit %(ended)s)
)
select j.number, j.name, j.status, j.native_id,
       j.place, j.began_at, j.submitted_at, j.started_at, coalesce(j.heard_at, s.opened_at) as heard_at,
       j.cancelled_at, j.ended_at,
       extract(epoch from clock_timestamp() - j.began_at)::double precision as age_s,
       extract(epoch from clock_timestamp() - j.started_at)::double precision as running_s,
       extract(epoch from clock_timestamp() - coalesce(j.heard_at, s.opened_at))::double precision
           as heard_ago_s,
       j.outcome, j.why, j.exit_code, j.tail, s.at_work, s.host, s.left_why, s.attempts, j.missing_polls,
       extract(epoch from clock_timestamp() - j.missing_at)::double precision as missing_s
  from chosen j
  join taskq.pilot p on p.pilot_id = j.pilot_id and taskq.token_covers(p.path)
 cross join lateral (
       select min(s.opened_at) as opened_at, coalesce(bool_or(s.ended_at is null), false) as at_work,
              max(s.host) as host, max(s.left_why) as left_why,
              case when bool_and(s.attempts is not null) then sum(s.attempts) end as attempts
         from taskq.session s
        where s.agent = j.name
          and s.agent like 'taskq-%%') s
 order by j.number desc
