-- The hosts at which no agent is at work now, although agents there served a campaign, one above or one below it,
-- within a day, or were refused a session with a token for it, unless other agents have taken their place; those with
-- most slots first. slots: of the agents that were there together last, as far as they are missing; 0: none was. at: when
-- the last of them ended, or since when they have been refused.
-- cause and subject: `ban`, with the kind and the name of what is banned; `token`, with the name of the
-- token that ended; `refused`: for another reason; `lost`: no heartbeat came; `left`. why: in words; null: the agent
-- gave no reason. hosts, all_slots: of all such hosts.
-- Jobs of batch systems end, and the next ones begin on other hosts: no slot is missing then. So each pilot at each site,
-- and all other agents of a site together, have as many missing slots as they had most at a time, without those that
-- are there now or that the pilot's waiting jobs bring; they are those of the hosts that went last. A session counts
-- until two minutes before its end, or a tenth of its time, so that successors that come early are no more slots. A
-- pilot has ten minutes to submit the next job.
--
-- Looks at the 2,000 sessions that ended last, of the whole queue. Index: session_ended, session_open, campaign_pkey,
-- token_pkey, ban_pkey, pilot_job_live; notes of refused hellos are few.
-- @roles reader
-- @standby yes
-- @gateway manager
with ended as materialized (
    select s.session_id, s.campaign_id, s.host, s.site, s.slots, s.opened_at, s.ended_at, s.expired, s.left_why,
           s.token_id, s.heartbeat_at, s.agent, coalesce(substring(s.agent from '^taskq-.+-[0-9a-f]{8}(?=-)'), '') as pilot
      from taskq.session s
     where s.ended_at > clock_timestamp() - interval '1 day'
     order by s.ended_at desc
     limit 2000
), living as materialized (
    select s.campaign_id, s.host, s.site, s.slots, s.opened_at, s.agent,
           coalesce(substring(s.agent from '^taskq-.+-[0-9a-f]{8}(?=-)'), '') as pilot
      from taskq.session s
     where s.ended_at is null
       and s.session_id <> 0
), at_work as materialized (
    select l.*
      from living l
     cross join lateral (
         select c.path from taskq.campaign c where c.campaign_id = l.campaign_id offset 0
     ) c
     where taskq.at_or_below(c.path, %(path)s) or taskq.at_or_below(%(path)s, c.path)
), gone as materialized (
    select e.*, max(e.opened_at) over (partition by e.host) as last_opened,
           row_number() over (partition by e.host order by e.ended_at desc, e.session_id desc) as place
      from ended e
     cross join lateral (
         select c.path from taskq.campaign c where c.campaign_id = e.campaign_id offset 0
     ) c
     where e.session_id <> 0
       and (taskq.at_or_below(c.path, %(path)s) or taskq.at_or_below(%(path)s, c.path))
), served as (
    select g.host, sum(g.slots) filter (where g.ended_at > g.last_opened)::bigint as slots,
           min(g.site) filter (where g.place = 1) as site, max(g.ended_at) as ended_at,
           max(g.heartbeat_at) as heard_at,
           bool_or(g.expired) filter (where g.place = 1) as expired,
           min(g.left_why) filter (where g.place = 1) as left_why,
           min(g.token_id) filter (where g.place = 1) as token_id,
           min(g.pilot) filter (where g.place = 1) as pilot
      from gone g
     group by g.host
), turn as (
    select g.pilot, g.site, g.opened_at as at, g.slots as change from gone g
     union all
    select g.pilot, g.site, g.ended_at - least(interval '2 min', (g.ended_at - g.opened_at) / 10), -g.slots from gone g
     union all
    select a.pilot, a.site, a.opened_at, a.slots from at_work a
), most as (
    select l.pilot, l.site, max(l.slots) as slots
      from (select t.pilot, t.site, sum(t.change) over (partition by t.pilot, t.site order by t.at, t.change) as slots
              from turn t) l
     group by l.pilot, l.site
), coming as (
    select format('taskq-%%s-%%s', p.name, p.key) as pilot, count(*) as jobs
      from taskq.pilot_job j
      join taskq.pilot p on p.pilot_id = j.pilot_id
     where j.status <> 'ended'
       and j.heard_at is null
       and p.status = 'active'
     group by p.name, p.key
), job as (
    select w.pilot, sum(w.slots)::float8 / count(distinct w.agent) as slots
      from (select g.pilot, g.agent, g.slots from gone g union all select a.pilot, a.agent, a.slots from at_work a) w
     where w.pilot <> ''
     group by w.pilot
), missing as (
    select m.pilot, m.site,
           m.slots - coalesce((select sum(a.slots) from at_work a where a.pilot = m.pilot and a.site = m.site), 0)
           - coalesce((select c.jobs * b.slots from coming c join job b on b.pilot = c.pilot
                        where c.pilot = m.pilot), 0) as slots
      from most m
), refused as (
    select distinct on (r.host) r.host, r.site, r.token_id, r.why, r.own, r.first_at, r.last_at
      from taskq.refused_hello r
     cross join lateral (
         select t.paths from taskq.token t where t.token_id = r.token_id offset 0
     ) t
     where r.last_at > clock_timestamp() - interval '1 day'
       and exists (
           select from unnest(t.paths) as p (path)
            where taskq.at_or_below(%(path)s, p.path) or taskq.at_or_below(p.path, %(path)s))
     order by r.host, r.last_at desc
), host as (
    select host, coalesce(nullif(r.site, ''), s.site, '') as site, coalesce(s.slots, 0) as slots, s.expired, s.left_why,
           s.site as served_site, s.pilot, s.ended_at,
           case when n.is_newer then r.token_id else s.token_id end as token_id,
           case when n.is_newer then r.why end as refused, n.is_newer and r.own as own,
           case when n.is_newer then greatest(r.first_at, s.heard_at) else s.ended_at end as at
      from served s
      full join refused r using (host)
     cross join lateral (select (r.last_at < s.heard_at) is not true and r.host is not null as is_newer) n
), absent as (
    select h.*
      from host h
     where h.host <> ''
       and not exists (select from living l where l.host = h.host)
)
select h.host, h.site, n.slots, h.at,
       case when b.kind is not null then 'ban' when t.name is not null then 'token'
            when h.own then 'unfit' when h.refused is not null then 'refused' when h.expired then 'lost' else 'left' end as cause,
       case when b.kind is not null then array[b.kind, b.name] when t.name is not null then array[t.name]
            else '{}' end as subject,
       case when b.kind is not null then b.why when t.name is not null then t.state
            else coalesce(h.refused, h.left_why) end as why,
       count(*) over () as hosts, (sum(n.slots) over ())::bigint as all_slots
  from (
      -- Those that went last are missing.
      select a.*, m.slots as missing,
             a.pilot <> '' and a.refused is null and a.ended_at > clock_timestamp() - interval '10 min' as may_come,
             sum(a.slots) over (partition by a.pilot, a.served_site order by a.ended_at desc, a.host
                                rows between unbounded preceding and 1 preceding) as later
        from absent a
        left join missing m on m.pilot = a.pilot and m.site = a.served_site
  ) h
 cross join lateral (
     select greatest(0, least(h.slots, h.missing - coalesce(h.later, 0)))::bigint as slots
 ) n
  left join lateral (
      select b.kind, b.name, b.why
        from taskq.ban b
       where (b.kind, b.name) in (('host', h.host), ('site', h.site))
         and (b.until > clock_timestamp()) is not false
         and taskq.at_or_below(%(path)s, b.path)
       order by b.kind, b.path
       limit 1
  ) b on true
  left join lateral (
      select t.name, case when t.revoked_at is not null then 'was revoked'
                          when t.expires_at <= clock_timestamp() then 'has expired'
                          else 'is used up' end as state
        from taskq.token t
       where t.token_id = h.token_id
         and (t.revoked_at is not null or t.expires_at <= clock_timestamp() or t.uses >= t.max_uses)
         and (h.refused is not null or t.revoked_at is not null)
       limit 1
  ) t on true
 where n.slots > 0 and h.may_come is not true or b.kind is not null or t.name is not null or h.refused is not null
 order by n.slots desc, h.at desc, h.host
 limit %(limit)s
