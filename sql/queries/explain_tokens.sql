-- The tokens of sites that agents of a campaign can have: those that are valid, and those that ended within
-- 30 days; latest first. ends_at: of a valid one that has served, if little of its time is left: at most three days, and
-- at most a tenth. never: no agent has come with it, not even one that was refused, as far as sessions
-- without work and refused hellos are kept. Index: session_token,
-- refused_hello_pkey; tokens are few.
-- @roles reader
-- @standby yes
-- @gateway manager, quiet, whole
select t.name, t.paths, t.state, t.ended_at, t.created_at,
       not exists (select from taskq.session s where s.token_id = t.token_id)
       and not exists (select from taskq.refused_hello r where r.token_id = t.token_id) as never,
       case when t.state = 'valid'
             and t.expires_at - clock_timestamp() < least(interval '3 days', (t.expires_at - t.created_at) / 10)
             and exists (select from taskq.session s where s.token_id = t.token_id)
            then t.expires_at end as ends_at
  from (
      select t.token_id, t.name, t.paths, t.created_at, t.expires_at,
             case when t.revoked_at is not null then 'revoked'
                  when t.expires_at <= clock_timestamp() then 'expired'
                  when t.uses >= t.max_uses then 'used up'
                  else 'valid' end as state,
             case when t.revoked_at is not null then t.revoked_at
                  when t.expires_at <= clock_timestamp() then t.expires_at end as ended_at
        from taskq.token t
       where t.kind = 'site'
  ) t
 where (t.ended_at > clock_timestamp() - interval '30 days') is not false
   and exists (
       select from unnest(t.paths) as p (path)
        where taskq.at_or_below(%(path)s, p.path) or taskq.at_or_below(p.path, %(path)s))
 order by t.token_id desc
 limit %(limit)s
