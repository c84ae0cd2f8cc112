-- offered(requires, offers): whether an agent's tags meet what a campaign requires. Both are as
-- checked_tags() returns them: a requirement is NAME, NAME=VALUE or NAME>=NUMBER, an offer NAME or
-- NAME=VALUE. NAME is met by any offer of that name, NAME=VALUE by an equal value, NAME>=NUMBER by a number
-- at least as large; of several offers of one name, one is enough. Values that are both numbers are compared
-- as numbers.
-- @roles all
-- @standby yes
-- @gateway no
create or replace function taskq.offered(p_requires text[], p_offers text[])
returns boolean
language plpgsql immutable strict
as $$
declare
    v_number constant text := '^[+-]?[0-9]{1,15}([.][0-9]{1,15})?$';
    v_tag text;
    v_name text;
    v_relation text;
    v_wanted text;
begin
    foreach v_tag in array p_requires loop
        v_name := substring(v_tag from '^[A-Za-z0-9_.-]+');
        v_relation := substring(v_tag from '>?=');
        v_wanted := substr(v_tag, length(v_name) + length(v_relation) + 1);
        if not exists (
            select
              from (select split_part(o.tag, '=', 1) as name,
                           nullif(strpos(o.tag, '='), 0) as mark,
                           substr(o.tag, strpos(o.tag, '=') + 1) as value
                      from unnest(p_offers) as o (tag)) o
             where o.name = v_name
               and case
                       when v_relation is null then true
                       when o.mark is null then false
                       when o.value ~ v_number and v_wanted ~ v_number then
                           case when v_relation = '=' then o.value::numeric = v_wanted::numeric
                                else o.value::numeric >= v_wanted::numeric end
                       else v_relation = '=' and o.value = v_wanted
                   end
        ) then
            return false;
        end if;
    end loop;
    return true;
end
$$;
