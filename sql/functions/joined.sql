-- joined(one, other): two JSON arrays as one; null stands for an empty one. A part of take().
create or replace function taskq.joined(p_one json, p_other json)
returns json
language plpgsql immutable
as $$
begin
    if p_one is null or p_other is null then
        return coalesce(p_one, p_other);
    end if;
    return (
        select json_agg(e.element)
          from (
              select json_array_elements(p_one) as element
               union all
              select json_array_elements(p_other)
          ) e);
end
$$;
