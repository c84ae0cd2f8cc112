-- Each agent on a banned host or site has the order to leave. The keeper finds those that were being let in when the
-- ban was made, see drain_banned().
--
-- campaign. Rows: its sessions without that order, although a keeper had a minute to find them, in `text`; what is
-- compared, in `rows`. Index: session_open, ban_pkey.
select null::bigint as task_id,
       format('agent %%s of host %%s is at work, and %%s %%s is banned since %%s',
              s.agent, s.host, b.kind, b.name, b.banned_at) as text,
       jsonb_build_object('session', s.session_id, 'opened_at', s.opened_at, 'host', s.host,
                          'site', s.site, 'kind', b.kind, 'banned_at', b.banned_at) as rows
  from taskq.session s
 cross join lateral (values ('host', s.host), ('site', s.site)) as p (kind, name)
  join taskq.campaign c on c.campaign_id = s.campaign_id
  join taskq.ban b on (b.kind, b.name) = (p.kind, p.name) and taskq.at_or_below(c.path, b.path)
 where s.campaign_id = %(campaign)s
   and s.ended_at is null
   and not s.drain
   and (b.until > now()) is not false
   and b.banned_at <= (select least(k.until, now()) - interval '1 minute' from taskq.keeper k where k.only_one)
 order by s.session_id
