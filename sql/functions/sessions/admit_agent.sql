-- admit_agent(path, key, ..., token, token_hash, address): opens a session, or finds the one that was opened
-- with this key. The common part of open_session() and enrol(); not for clients.
--
-- token, token_hash, address: if a token opens the session; otherwise null. See open_session() for the other
--     parameters and the errors.
-- session: its id. opened: whether it is new.
-- Error TQ403: the key's session was opened with another token, or with none; or the host or site is
-- banned for the campaign or one above, unless the key has a session already. For a ban that commits meanwhile see drain_banned(). Error
-- 23505 for session_pkey: the sequence is behind, see mend_sequences().
-- Index: session_key_key, ban_pkey.
create or replace function taskq.admit_agent(
    p_path text,
    p_key uuid,
    p_lease_s double precision,
    p_agent text,
    p_host text,
    p_site text,
    p_pid integer,
    p_slots integer,
    p_release text,
    p_offers text[],
    p_token bigint,
    p_token_hash bytea,
    p_address inet,
    out session bigint,
    out opened boolean
)
language plpgsql
as $$
declare
    v_now constant timestamptz := clock_timestamp();
    v_found record;
    v_banned constant text := taskq.banned(left(p_host, 200), left(p_site, 200), p_path);
begin
    insert into taskq.session (
           key, campaign_id, opened_at, heartbeat_at, lease_s, slots, pid, agent, host, site,
           release, offers, token_id, token_hash, address, banned)
    select p_key, taskq.campaign_id(p_path), v_now, v_now, p_lease_s, p_slots, p_pid,
           left(p_agent, 200), left(p_host, 200), left(p_site, 200), left(p_release, 50),
           taskq.checked_tags('offers', p_offers), p_token, p_token_hash, p_address,
           taskq.campaign_bans(left(p_host, 200), left(p_site, 200), p_path)
     where v_banned is null
    -- Two concurrent calls with the same key have the same token: either constraint may fail first.
    on conflict do nothing
    returning session_id into session;
    opened := found;
    if opened then
        return;
    end if;
    select s.session_id, s.ended_at, s.token_id, s.token_hash into v_found
      from taskq.session s
     where s.key = p_key;
    if not found and v_banned is not null then
        raise exception '%', v_banned using errcode = 'TQ403';
    end if;
    if not found then
        raise exception 'the next id of a session is taken'
            using errcode = 'unique_violation', constraint = 'session_pkey';
    end if;
    if (v_found.token_id, v_found.token_hash) is distinct from (p_token, p_token_hash) then
        raise exception 'the session of this key is somebody else''s; draw another'
            using errcode = 'TQ403';
    end if;
    if v_found.ended_at is not null then
        raise exception 'the session has ended; open another' using errcode = 'TQ410';
    end if;
    session := v_found.session_id;
end
$$;
