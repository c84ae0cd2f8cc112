-- permit(hash, kind, paths, campaigns, quiet, timeout_s): checks that a manager's token may do what the rest
-- of the transaction does.
--
-- hash: the SHA-256 of the token. kind: the least kind of token that may. paths, campaigns: the campaigns
--     concerned, by paths and by ids. quiet: whether a campaign outside the token is not an error. timeout_s: the time
--     limit of each following statement, in seconds.
-- Result: kind, name: those of the token; within: whether it is for all of these campaigns.
-- Error TQ401: the token is unknown, expired or revoked, or a site's. Error TQ403: it is of a lesser kind, or
--     not for a campaign. A missing campaign counts as another's, except for a token for all.
--
-- Sets for the transaction: the time limit of statements, half of it for locks; taskq.token_kind, which
-- change_campaign() reads; taskq.token_name, which create_campaign() does; taskq.token_id, which follow() does;
-- taskq.token_paths, which token_covers() does. Locks: none. Index: token_hash_key, campaign_pkey.
-- @roles manager
-- @gateway no
-- @act no: it checks a token
create or replace function taskq.permit(
    p_hash bytea, p_kind text, p_paths text[], p_campaigns bigint[], p_quiet boolean,
    p_timeout_s double precision, out kind text, out within boolean, out name text)
language plpgsql
as $$
declare
    v_token taskq.token;
    v_other text;
begin
    select t.* into v_token
      from taskq.token t
     where t.hash = p_hash
       and t.kind <> 'site'
       and t.revoked_at is null
       and t.expires_at > clock_timestamp();
    if not found then
        raise exception 'the token is not valid: unknown, expired or revoked; ask for another'
            using errcode = 'TQ401';
    end if;
    if v_token.kind < p_kind::taskq.token_kind then
        raise exception 'this needs a %''s token, and this is a %''s', p_kind, v_token.kind
            using errcode = 'TQ403';
    end if;
    kind := v_token.kind;
    name := v_token.name;
    within := true;
    if not '/' = any (v_token.paths) then
        select a.name into v_other
          from (
              select p.path, p.path
                from unnest(p_paths) as p (path)
               union all
              select c.path, 'campaign ' || n.campaign_id
                from unnest(p_campaigns) as n (campaign_id)
                left join taskq.campaign c on c.campaign_id = n.campaign_id
          ) a (path, name)
         where not exists (
             select from unnest(v_token.paths) as own (path)
              where taskq.at_or_below(a.path, own.path))
         limit 1;
        within := not found;
        if not within and p_quiet is not true then
            raise exception 'the token % is not for %, but for %', v_token.name, v_other,
                array_to_string(v_token.paths, ', ') using errcode = 'TQ403';
        end if;
    end if;
    perform set_config('statement_timeout', (p_timeout_s * 1000)::integer::text, true),
            set_config('lock_timeout', (p_timeout_s * 500)::integer::text, true),
            set_config('taskq.token_kind', kind, true),
            set_config('taskq.token_name', v_token.name, true),
            set_config('taskq.token_id', v_token.token_id::text, true),
            set_config('taskq.token_paths', v_token.paths::text, true);
end
$$;
