-- drain_banned(since): drains sessions that were being opened while their host or site was banned: neither
-- ban() nor admit_agent() could see the other. Notes bans for single campaigns in such sessions too, and those that
-- have ended since. Called by the keeper.
--
-- since: look at bans made or ended after this instant. No session takes ten minutes to open, so a keeper goes back
--     that far before its round, or before the last round of any keeper.
--
-- Locks: the sessions, to drain them skipping locked ones: the next round comes soon. Index: session_open, ban_pkey.
create or replace function taskq.drain_banned(
    p_since timestamptz default clock_timestamp() - interval '10 min'
)
returns void
language plpgsql
as $$
declare
    v_now constant timestamptz := clock_timestamp();
    v_hosts text[];
    v_sites text[];
    v_some_hosts text[];
    v_some_sites text[];
begin
    select array_agg(b.name) filter (where b.kind = 'host' and (b.until > v_now) is not false),
           array_agg(b.name) filter (where b.kind = 'site' and (b.until > v_now) is not false),
           array_agg(b.name) filter (where b.kind = 'host' and b.path <> '/'),
           array_agg(b.name) filter (where b.kind = 'site' and b.path <> '/')
      into v_hosts, v_sites, v_some_hosts, v_some_sites
      from taskq.ban b
     where b.banned_at > p_since
        or b.until > p_since and b.until <= v_now;
    if v_some_hosts is not null or v_some_sites is not null then
        perform taskq.note_bans(v_some_hosts, v_some_sites);
    end if;
    if v_hosts is null and v_sites is null then
        return;
    end if;
    with found as materialized (
        select s.session_id
          from taskq.session s
          join taskq.campaign c on c.campaign_id = s.campaign_id
         where s.ended_at is null
           and not s.drain
           and (s.host = any (v_hosts) or s.site = any (v_sites))
           and taskq.banned(s.host, s.site, c.path) is not null
         order by s.session_id
           for no key update of s skip locked
    )
    update taskq.session s
       set drain = true
      from found f
     where s.session_id = f.session_id;
end
$$;
