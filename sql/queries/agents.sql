-- The open sessions, with the number of attempts that they hold, longest silent first. A manager's token counts only
-- attempts of its campaigns, and sees only the names of tokens that are for no others. together: those attempts that
-- share starts, see batches_in_hand(); begun: of these. shares: see shares_of().
-- Index: session_open, ban_pkey, those of in_hand(), batches_in_hand() and shares_of().
-- @roles reader
-- @standby yes
-- @gateway manager, up to 10000000
select s.session_id, s.agent, s.host, s.site, s.pid, s.slots, s.release, s.offers, c.path,
       s.opened_at,
       extract(epoch from clock_timestamp() - s.heartbeat_at)::double precision as silent_s,
       case when taskq.token_covers(c.path) then taskq.in_hand(s.session_id)
            else taskq.in_hand_covered(s.session_id) end as working,
       coalesce(h.tasks, 0) as together, h.begun,
       s.drain as draining,
       case when not exists (select from unnest(k.paths) as p (path) where not taskq.token_covers(p.path))
            then k.name end as token,
       case when (s.said #> '{trouble, failures}')::integer > 0
            then '{"error_class": "", "try_in_s": 0}'
                     || (s.said -> 'trouble') - '{warnings, cause}'::text[] end as trouble,
       coalesce(s.said #> '{trouble, warnings}', '[]') as warnings,
       coalesce(s.said #>> '{trouble, cause}', '') as cause, s.suspect, s.lease_s,
       greatest(s.heartbeat_at, pg_postmaster_start_time())
           + make_interval(secs => s.lease_s) as expires_at,
       case when s.drain then taskq.banned(s.host, s.site, c.path) end as banned,
       case when s.said ? 'shares' then taskq.shares_of(s.session_id) else '[]' end as shares
  from taskq.session s
  join taskq.campaign c on c.campaign_id = s.campaign_id
  left join taskq.token k on k.token_id = s.token_id
 cross join lateral taskq.batches_in_hand(s.session_id) h
 where s.ended_at is null
   and (taskq.at_or_below(c.path, %(path)s) or taskq.at_or_below(%(path)s, c.path))
 order by s.heartbeat_at
 limit %(limit)s
