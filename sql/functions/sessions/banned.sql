-- banned(host, site): why agents of a host and site are kept away now, as a sentence for them and for
-- people; null: they are not. A ban of the host comes before one of the site. Index: ban_pkey.
-- @roles reader
-- @standby no
-- @gateway no
create or replace function taskq.banned(p_host text, p_site text)
returns text
language plpgsql stable
as $$
declare
    v_ban taskq.ban;
begin
    select b.* into v_ban
      from taskq.ban b
     where b.kind = 'host'
       and b.name = p_host
       and (b.until > clock_timestamp()) is not false;
    if not found then
        select b.* into v_ban
          from taskq.ban b
         where b.kind = 'site'
           and b.name = p_site
           and (b.until > clock_timestamp()) is not false;
        if not found then
            return null;
        end if;
    end if;
    return format(
        'the %s %s is banned%s: %s', v_ban.kind, v_ban.name,
        ' until ' || to_char(v_ban.until at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'),
        v_ban.why);
end
$$;
