-- resource_tags(amounts): the requirements of a campaign that needs so much of named resources, checked. A part of
-- change_campaign(); not for clients.
--
-- amounts: a JSON object of whole numbers by name, or null.
-- Error TQ400: it is something else, a name or an amount is not well formed, or there are more than eight.
create or replace function taskq.resource_tags(p_amounts jsonb)
returns text[]
language plpgsql immutable
as $$
declare
    v_fault text;
begin
    if p_amounts is null or p_amounts = 'null' then
        return '{}';
    end if;
    if jsonb_typeof(p_amounts) <> 'object' then
        raise exception 'named resources are an object of amounts, not %', jsonb_typeof(p_amounts)
            using errcode = 'TQ400';
    end if;
    select left(min(r.name), 80) into v_fault
      from jsonb_each_text(p_amounts) as r (name, amount)
     where r.name !~ '^[a-z][a-z0-9_]{0,31}$'
        or (r.amount ~ '^[1-9][0-9]{0,14}$') is not true;
    if v_fault is not null then
        raise exception 'the named resource % needs a name of small letters, digits and _, and a whole amount above 0',
            quote_literal(v_fault) using errcode = 'TQ400';
    end if;
    if (select count(*) > 8 from jsonb_object_keys(p_amounts)) then
        raise exception 'a campaign has 8 named resources at most' using errcode = 'TQ400';
    end if;
    return array(select format('resource.%s>=%s', r.name, r.amount)
                   from jsonb_each_text(p_amounts) as r (name, amount)
                  order by r.name collate "C");
end
$$;
