-- bans_at(host, site): the bans of a host and of a site that hold now. A part of banned() and campaign_bans(); not
-- for clients. Index: ban_pkey.
-- @roles reader
-- @standby no
-- @gateway no
create or replace function taskq.bans_at(p_host text, p_site text)
returns setof taskq.ban
language sql stable
as $$
    select b.*
      from (values ('host', p_host), ('site', p_site)) as p (kind, name)
     cross join lateral (
         select b.*
           from taskq.ban b
          where b.kind = p.kind
            and b.name = p.name
            and (b.until > clock_timestamp()) is not false
         offset 0
     ) b
$$;
