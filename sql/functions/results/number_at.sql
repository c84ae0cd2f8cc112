-- number_at(object, name): the number at a name of a JSON object, see value_at(); null where there is none. A part
-- of best_results(), best_of_groups() and take_in_results(); not for clients.
--
-- A number is a JSON number, neither text nor true. One with more than 309 digits before the point, or more
-- than 1,000 after it, counts as none: no double has so many before it, and an index cannot hold them all.
create or replace function taskq.number_at(p_object jsonb, p_name text)
returns numeric
language plpgsql immutable parallel safe
as $$
declare
    v_value constant jsonb :=
        case when p_name like '%.%' then taskq.value_at(p_object, p_name) else p_object -> p_name end;
    v_number constant numeric := case when jsonb_typeof(v_value) = 'number' then v_value::numeric end;
begin
    return case when abs(v_number) < 1e309 and scale(v_number) <= 1000 then v_number end;
end
$$;
