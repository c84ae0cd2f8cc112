-- enrol(token_hash, session_hash, address, path, key, lease_s, ...): opens a session for an agent with
-- the token of its site; the session has the rights of the token.
--
-- token_hash, session_hash: SHA-256 of the site's token and of the session's own, which the caller
--     derives from the former and the key. address: where the agent speaks from. path: the campaign
--     that the agent asks for. See open_session() for the others.
--     The agent's site is the one that its token is bound to, else the one that it names, else the token's
--     name.
-- session: its id. path: the campaign that it serves: the requested one if the token is for it or for one
--     above; else the only one below it that the token is for.
-- Error TQ401: the token is unknown, not a site's, expired or revoked. Error TQ403: not for this
--     campaign, not from this address, or used up. Errors TQ400, TQ404, TQ410: see open_session().
--
-- It may be repeated: the same key finds the same session, and that counts as one use.
-- A token's expiry is checked here only: an open session stays open as long as it sends heartbeats,
-- since the tasks that it holds are worth more than punctuality. Revocation ends its sessions.
--
-- Locks: the token's row, against revoke_token(). Enrolments wait for each other only under max_uses,
-- where each changes that row, as late as it can. Index: token_hash_key, session_key_key.
create or replace function taskq.enrol(
    p_token_hash bytea,
    p_session_hash bytea,
    p_address inet,
    p_path text,
    p_key uuid,
    p_lease_s double precision default 120,
    p_agent text default '',
    p_host text default '',
    p_site text default '',
    p_pid integer default 0,
    p_slots integer default 1,
    p_release text default '',
    p_offers text[] default '{}',
    out session bigint,
    out path text
)
language plpgsql
as $$
declare
    v_token taskq.token;
    v_path text;
    v_opened boolean;
begin
    select t.* into v_token
      from taskq.token t
     where t.hash = p_token_hash
       for key share;
    if (v_token.kind = 'site'
        and v_token.revoked_at is null
        and v_token.expires_at > clock_timestamp()) is not true
    then
        raise exception 'the token is not valid: unknown, expired or revoked; ask for another'
            using errcode = 'TQ401';
    end if;
    if v_token.networks <> '{}' and (p_address <<= any (v_token.networks)) is not true then
        raise exception 'the token % is not for agents at %', v_token.name, p_address
            using errcode = 'TQ403';
    end if;
    -- The path itself if the token allows it, else the only one of the token's paths below it.
    select case
               when bool_or(taskq.at_or_below(p_path, a.path)) then p_path
               when count(distinct a.path) filter (where taskq.at_or_below(a.path, p_path)) = 1
               then min(a.path) filter (where taskq.at_or_below(a.path, p_path))
           end
      into v_path
      from unnest(v_token.paths) as a (path);
    if v_path is null then
        raise exception 'the token % is not for %, but for %', v_token.name, p_path,
                array_to_string(v_token.paths, ', ')
            using errcode = 'TQ403';
    end if;

    select a.session, a.opened into session, v_opened
      from taskq.admit_agent(v_path, p_key, p_lease_s, p_agent, p_host,
                       coalesce(v_token.at_site, nullif(p_site, ''), v_token.name), p_pid, p_slots,
                       p_release, p_offers, v_token.token_id, p_session_hash, p_address) a;
    select c.path into path
      from taskq.session s
      join taskq.campaign c on c.campaign_id = s.campaign_id
     where s.session_id = session;
    if v_opened and v_token.max_uses is not null then
        update taskq.token t
           set uses = t.uses + 1
         where t.token_id = v_token.token_id
           and t.uses < t.max_uses;
        if not found then
            raise exception 'the token % is used up: it is for % sessions; ask for another', v_token.name,
                    v_token.max_uses
                using errcode = 'TQ403';
        end if;
    end if;
end
$$;
