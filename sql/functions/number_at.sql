-- number_at(object, name): the number at a name of a JSON object, see value_at(); null where there is none.
-- A number is what JSON calls so; neither text nor true.
create or replace function taskq.number_at(p_object jsonb, p_name text)
returns numeric
language plpgsql immutable parallel safe
as $$
declare
    v_value constant jsonb :=
        case when p_name like '%.%' then taskq.value_at(p_object, p_name) else p_object -> p_name end;
begin
    return case when jsonb_typeof(v_value) = 'number' then v_value::numeric end;
end
$$;
