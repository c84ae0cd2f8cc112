-- differing(one, other): the pieces in which two texts first differ, 180 characters at most; nulls if one is
-- null.
create or replace function taskq.differing(
    p_one text, p_other text, out one text, out other text)
language plpgsql immutable strict
as $$
declare
    c_before constant integer := 50;
    c_shown constant integer := 170;
    v_alike integer := 0;
    v_more integer := least(length(p_one), length(p_other));
    v_middle integer;
    v_from integer;
begin
    -- The number of equal characters from the left, found by bisection.
    while v_alike < v_more loop
        v_middle := (v_alike + v_more + 1) / 2;
        if left(p_one, v_middle) = left(p_other, v_middle) then
            v_alike := v_middle;
        else
            v_more := v_middle - 1;
        end if;
    end loop;
    v_from := case when greatest(length(p_one), length(p_other)) <= c_shown then 0
                   else greatest(v_alike - c_before, 0) end;
    one := substr(p_one, v_from + 1, c_shown);
    other := substr(p_other, v_from + 1, c_shown);
    if v_from > 0 then
        one := '...' || one;
        other := '...' || other;
    end if;
    if length(p_one) > v_from + c_shown then
        one := one || '...';
    end if;
    if length(p_other) > v_from + c_shown then
        other := other || '...';
    end if;
end
$$;
