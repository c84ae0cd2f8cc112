-- banned(host, site, path): why agents of a host and site that serve a campaign with all below it are kept away now,
-- as a sentence for them and for people; null: they are not. A ban of the host comes before one of the site, and one
-- for a campaign above before others. Index: ban_pkey.
-- @roles reader
-- @standby no
-- @gateway no
create or replace function taskq.banned(p_host text, p_site text, p_path text)
returns text
language sql stable
as $$
    select format(
               'the %s %s is banned%s%s: %s', b.kind, b.name, ' for ' || nullif(b.path, '/'),
               ' until ' || to_char(b.until at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'), b.why)
      from taskq.bans_at(p_host, p_site) b
     where taskq.at_or_below(p_path, b.path)
     order by b.kind, b.path
     limit 1
$$;
