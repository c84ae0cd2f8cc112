-- checked_limits(names, known, owner): the names of limits for a campaign of an owner. A part of change_campaign(); not
-- for clients.
--
-- known: those that it has, which are not checked again.
-- Error TQ404: no such limit; error TQ403: it is not for that owner; error TQ400: more than eight.
--
-- Index: named_limit_pkey.
create or replace function taskq.checked_limits(p_names text[], p_known text[], p_owner text)
returns text[]
language plpgsql
as $$
declare
    v_name text;
    v_limit taskq.named_limit;
begin
    if cardinality(p_names) > 8 then
        raise exception 'a campaign has 8 named limits at most' using errcode = 'TQ400';
    end if;
    foreach v_name in array p_names loop
        continue when v_name = any (p_known);
        select l.* into v_limit from taskq.named_limit l where l.name = v_name;
        if not found then
            raise exception 'no limit %; an operator makes it, by `taskq limit set`', quote_literal(left(v_name, 80))
                using errcode = 'TQ404';
        end if;
        if p_owner <> all (v_limit.owners) then
            raise exception 'the limit % is not for campaigns of %', v_name, p_owner using errcode = 'TQ403';
        end if;
    end loop;
    return array(select distinct n.name from unnest(p_names) as n (name) order by n.name);
end
$$;
