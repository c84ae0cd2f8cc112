-- json_fault(text, most, deep): how JSON text exceeds its limits; null: it does not. Called before the text
-- becomes jsonb, which keeps `1e131000` in a few bytes and writes 131,001 digits. A part of functions that
-- take JSON from clients; agents/taskq_agent/json_limits.py checks the same for gateways.
--
-- most: bytes, with numbers written out. deep: nested objects and arrays. A number has at most 350 digits and
--     an exponent of at most 350; any double has fewer.
create or replace function taskq.json_fault(p_text text, p_most integer, p_deep integer)
returns text
language plpgsql immutable strict parallel safe
as $$
declare
    v_bare text;
    v_size bigint := octet_length(p_text);
    v_digits bigint;
    v_places bigint;
begin
    if v_size > p_most then
        return format('of %s bytes; %s at most', v_size, p_most);
    end if;
    -- Most texts end here: no exponent that matters, no long number, few brackets. Exponents of two digits
    -- make a text at most 21 times as long.
    if p_text !~ (case when v_size * 21 > p_most then '[0-9][eE][+-]?[0-9]'
                     else '[0-9][eE][+-]?[0-9]{3}' end)
       and (v_size <= 350 or p_text !~ '[0-9.]{24}')
       and (v_size <= 2 * p_deep
            or v_size - octet_length(replace(replace(p_text, '[', ''), '{', '')) <= p_deep)
    then
        return null;
    end if;
    v_bare := regexp_replace(p_text, e'"(?:[^"\\\\]|\\\\.)*"', '"', 'g');
    if translate(v_bare, '.+-', '') ~ '[0-9]{200}[0-9]{151}' then
        return 'with a number of more than 350 digits';
    end if;
    select max(n.places), sum(n.places)
      into v_digits, v_places
      from (
          select case when length(m.parts[1]) > 6 then 1000000
                      else nullif(m.parts[1], '')::integer end as places
            from regexp_matches(v_bare, '[eE][+-]?0*([0-9]*)', 'g') as m (parts)
      ) n;
    if v_digits > 350 then
        return format('with a number of %s digits, written out; 350 at most',
                      case when v_digits = 1000000 then 'millions of' else v_digits::text end);
    end if;
    if v_size + coalesce(v_places, 0) > p_most then
        return format('of %s bytes with numbers written out; %s at most', v_size + v_places, p_most);
    end if;
    v_bare := translate(regexp_replace(v_bare, '[^][{}]+', '', 'g'), '{}', '[]');
    if strpos(v_bare, repeat('[', p_deep + 1)) = 0 and strpos(v_bare, repeat(']', p_deep + 1)) = 0 then
        for i in 1..p_deep loop
            exit when strpos(v_bare, '[]') = 0;
            v_bare := replace(v_bare, '[]', '');  -- the innermost ones
        end loop;
    end if;
    return case when v_bare <> '' then format('nested more than %s deep', p_deep) end;
end
$$;
