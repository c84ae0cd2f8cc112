-- The hosts at which no agent is at work now, although agents there served a campaign, one above or one below it,
-- within a day, or were refused a session with a token for it; those with most slots first. slots: of the agents
-- that were there together last; 0: none was. at: when the last of them ended, or since when they have been refused.
-- cause and subject: `ban`, with the kind and the name of what is banned; `token`, with the name of the
-- token that ended; `refused`: for another reason; `lost`: no heartbeat came; `left`. why: in words; null: the agent
-- gave no reason. hosts, all_slots: of all such hosts.
-- Looks at the 2,000 sessions that ended last, of the whole queue. Index: session_ended, session_open, campaign_pkey,
-- token_pkey, ban_pkey; notes of refused hellos are few.
-- @roles reader
-- @standby yes
-- @gateway manager
with ended as materialized (
    select s.session_id, s.campaign_id, s.host, s.site, s.slots, s.opened_at, s.ended_at, s.expired, s.left_why,
           s.token_id, s.heartbeat_at
      from taskq.session s
     where s.ended_at > clock_timestamp() - interval '1 day'
     order by s.ended_at desc
     limit 2000
), living as materialized (
    select distinct s.host
      from taskq.session s
     where s.ended_at is null
), gone as (
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
           min(g.token_id) filter (where g.place = 1) as token_id
      from gone g
     group by g.host
), refused as (
    select distinct on (r.host) r.host, r.site, r.token_id, r.why, r.first_at, r.last_at
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
           case when n.is_newer then r.token_id else s.token_id end as token_id,
           case when n.is_newer then r.why end as refused,
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
select h.host, h.site, h.slots, h.at,
       case when b.kind is not null then 'ban' when t.name is not null then 'token'
            when h.refused is not null then 'refused' when h.expired then 'lost' else 'left' end as cause,
       case when b.kind is not null then array[b.kind, b.name] when t.name is not null then array[t.name]
            else '{}' end as subject,
       case when b.kind is not null then b.why when t.name is not null then t.state
            else coalesce(h.refused, h.left_why) end as why,
       count(*) over () as hosts, (sum(h.slots) over ())::bigint as all_slots
  from absent h
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
 order by h.slots desc, h.at desc, h.host
 limit %(limit)s
