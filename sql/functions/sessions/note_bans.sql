-- note_bans(hosts, sites): notes in the sessions on some hosts and at some sites for which campaigns these are banned
-- now. Agents get that with the answer to their next heartbeat. Called when a ban for a campaign is made, lifted, or
-- ends; not for clients.
--
-- Result: how many sessions changed.
--
-- Locks: these sessions, in their order. Index: session_open, ban_pkey.
create or replace function taskq.note_bans(p_hosts text[], p_sites text[])
returns integer
language plpgsql
as $$
declare
    v_noted integer;
begin
    with found as materialized (
        select s.session_id, b.banned
          from taskq.session s
          join taskq.campaign c on c.campaign_id = s.campaign_id
         cross join lateral (select taskq.campaign_bans(s.host, s.site, c.path) as banned offset 0) b
         where s.ended_at is null
           and (s.host = any (p_hosts) or s.site = any (p_sites))
           and b.banned is distinct from s.banned
    ), locked as materialized (
        select s.session_id
          from taskq.session s
         where s.session_id = any (array(select f.session_id from found f))
         order by s.session_id
           for no key update
    )
    update taskq.session s
       set banned = f.banned
      from found f
      join locked l on l.session_id = f.session_id
     where s.session_id = f.session_id;
    get diagnostics v_noted = row_count;
    return v_noted;
end
$$;
