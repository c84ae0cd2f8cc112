-- Tokens that end soon: in less than 14 days, and in less than a fifth of their time. Tokens are few.
-- @roles reader
-- @standby no
-- @gateway no
select t.token_id, t.kind::text as kind, t.name, t.expires_at
  from taskq.token t
 where t.revoked_at is null
   and t.expires_at > clock_timestamp()
   and t.expires_at - clock_timestamp() < least(interval '14 days', (t.expires_at - t.created_at) / 5)
   and (t.max_uses is null or t.uses < t.max_uses)
 order by t.expires_at
 limit 20
