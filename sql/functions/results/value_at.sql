-- value_at(object, name): the value at a dotted name of a JSON object, null where there is none. A name may
-- itself contain dots: at each level the whole rest of the name is tried first. Elements of arrays have no
-- names.
create or replace function taskq.value_at(p_object jsonb, p_name text)
returns jsonb
language plpgsql immutable parallel safe
as $$
declare
    v_object jsonb := p_object;
    v_rest text := p_name;
    v_dot integer;
begin
    loop
        if v_object ? v_rest then
            return v_object -> v_rest;
        end if;
        v_dot := position('.' in v_rest);
        if v_dot = 0 or v_object is null then
            return null;
        end if;
        v_object := v_object -> left(v_rest, v_dot - 1);
        v_rest := substr(v_rest, v_dot + 1);
    end loop;
end
$$;
