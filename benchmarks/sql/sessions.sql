-- Sessions as enrol() opens them, many at once: 20,000 one by one would take half a minute.
insert into taskq.session (
       key, campaign_id, opened_at, heartbeat_at, lease_s, slots, pid, agent, host, site, release,
       token_id, token_hash)
select u.key, c.campaign_id, clock_timestamp(), clock_timestamp(), %(lease_s)s, 1, 0, 'bench',
       'bench', '', '', %(token)s, u.hash
  from unnest(%(keys)s::uuid[], %(hashes)s::bytea[]) u(key, hash)
 cross join (select campaign_id from taskq.campaign where path = %(path)s) c
returning session_id, key::text
