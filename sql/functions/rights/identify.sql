-- identify(hashes): the sessions and managers that tokens belong to, for many tokens at once. hashes:
-- SHA-256 of sessions' and managers' tokens.
--
-- Result: a row for each that is known, in no order:
--     of a session: session_id; token_id, that of the site; path and offers: its scope; ended:
--         whether it has ended or its campaign is gone.
--     of a manager, of any kind, if its token is neither expired nor revoked: token_id, and the paths that it
--         permits.
-- A caller may cache for ever which session a token names: every operation of a session checks that it
-- has not ended. All else, and rights to operations without a session such as reading a blob, may be
-- cached only for as long as a revocation may take.
--
-- Index: session_token_hash, campaign_pkey, token_hash_key.
-- @roles gateway web
-- @plan generic by-key
create or replace function taskq.identify(p_hashes bytea[])
returns table (
    hash bytea,
    token_id bigint,
    session_id bigint,
    path text,
    offers text[],
    ended boolean,
    paths text[]
)
language plpgsql stable
as $$
begin
    return query
        select s.token_hash, s.token_id, s.session_id, c.path, s.offers,
               -- A campaign that is gone cannot be served either.
               s.ended_at is not null or c.path is null, null::text[]
          from taskq.session s
          left join taskq.campaign c on c.campaign_id = s.campaign_id
         where s.token_hash = any (p_hashes)
         union all
        select t.hash, t.token_id, null, null, null, null, t.paths
          from taskq.token t
         where t.hash = any (p_hashes)
           and t.kind <> 'site'
           and t.revoked_at is null
           and t.expires_at > clock_timestamp();
end
$$;
