-- shape_of(result, best): the shape of a result, by the field that ranks the results of its campaign; null: none does.
--
-- none: there is no result, or it is null. large: it is above 8 kB, and nobody looked. number, NaN (a text that says
-- so, or infinity), text, null, boolean, array, object: what the field has, or without one the result. missing: it has
-- no such field.
create or replace function taskq.shape_of(p_result jsonb, p_best text)
returns text
language plpgsql immutable parallel safe
as $$
declare
    v_value jsonb;
    v_type text;
begin
    if p_result is null then
        return 'none';
    end if;
    if pg_column_size(p_result) > 8192 then
        return 'large';
    end if;
    v_type := jsonb_typeof(p_result);
    if v_type = 'null' then
        return 'none';
    end if;
    if p_best is not null then
        v_value := case when p_best like '%.%' then taskq.value_at(p_result, p_best) else p_result -> p_best end;
        v_type := coalesce(jsonb_typeof(v_value), 'missing');
    else
        v_value := p_result;
    end if;
    return case when v_type <> 'string' then v_type
                when v_value #>> '{}' ~* '^[-+]?(nan|inf|infinity)$' then 'NaN'
                else 'text' end;
end
$$;
