-- open_session(path, key, lease_s, agent, host, site, pid, slots, release, offers): an agent
-- presents itself.
--
-- key: drawn by the agent; the same key finds the same session. lease_s: seconds without a beat
--     after which the session expires and its tasks are handed out again, 1 to 86400. offers: its
--     tags, for campaigns that require some; see tags().
-- Result: the session's id. Error TQ404: no such campaign. Error TQ410: the key's session has
--     ended. Error TQ400: a tag is not well formed.
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
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_now constant timestamptz := clock_timestamp();
    v_id bigint;
begin
    insert into taskq.session (
           key, campaign_id, opened_at, heartbeat_at, lease_s, slots, pid, agent, host, site,
           release, offers)
    values (p_key, taskq.campaign_id(p_path), v_now, v_now, p_lease_s, p_slots, p_pid,
            left(p_agent, 200), left(p_host, 200), left(p_site, 200), left(p_release, 50),
            taskq.tags('offers', p_offers))
    on conflict (key) do nothing
    returning session_id into v_id;
    if v_id is null then
        select s.session_id into v_id
          from taskq.session s
         where s.key = p_key
           and s.ended_at is null;
        if not found then
            raise exception 'the session has ended; open another' using errcode = 'TQ410';
        end if;
    end if;
    return v_id;
end
$$;
