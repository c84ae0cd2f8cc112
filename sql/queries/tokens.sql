-- All tokens, or one; newest first. Index: session_token.
-- @roles reader
-- @standby no
-- @gateway no
select t.token_id, t.kind::text, t.name, t.paths, t.networks::text[], t.max_uses,
       greatest(t.uses, s.uses) as uses, s.sessions,
       t.created_at, t.expires_at, t.revoked_at,
       case
           when t.revoked_at is not null then 'revoked'
           when t.expires_at <= clock_timestamp() then 'expired'
           when t.uses >= t.max_uses then 'used up'
           else 'valid'
       end as state, t.max_output_bytes, t.at_site
  from taskq.token t
 cross join lateral (
       select count(*) as uses, count(*) filter (where s.ended_at is null) as sessions
         from taskq.session s
        where s.token_id = t.token_id) s
 where t.token_id = coalesce(%(token)s::bigint, t.token_id)
 order by t.token_id desc
