-- last_line(text): the last line that is not blank, at most 300 characters of it; null: there is none.
-- Inlined into the calling statement.
create or replace function taskq.last_line(p_text text)
returns text
language sql immutable parallel safe
as $$
    select nullif(
        left(split_part(rtrim(right(p_text, 4000), E' \t\r\n'), E'\n', -1), 300), '')
$$;
