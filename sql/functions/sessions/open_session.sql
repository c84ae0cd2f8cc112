-- open_session(path, key, lease_s, agent, host, site, pid, slots, release, offers): opens the session
-- of a direct agent. Idempotent by `key`.
--
-- key: drawn by the agent; the same key finds the same session. lease_s: seconds without a heartbeat
--     after which the session expires and its tasks are handed out again, 1 to 86400. offers: its
--     tags, for campaigns that require some; see checked_tags().
-- Result: the session's id. Error TQ404: no such campaign. Error TQ410: the key's session has
--     ended. Error TQ400: a tag is not well formed. Error TQ403: a token has opened the key's
-- session.
-- @roles agent
create or replace function taskq.open_session(
    p_path text,
    p_key uuid,
    p_lease_s double precision default 120,
    p_agent text default '',
    p_host text default '',
    p_site text default '',
    p_pid integer default 0,
    p_slots integer default 1,
    p_release text default '',
    p_offers text[] default '{}'
)
returns bigint
language sql
as $$
    select a.session
      from taskq.admit_agent(p_path, p_key, p_lease_s, p_agent, p_host, p_site, p_pid, p_slots,
                       p_release, p_offers, null, null, null) a
$$;
