-- cause(text): the common part of messages with one cause: the first 300 characters, with numbers as '#'.
-- Null: ''. Inlined into the calling statement.
create or replace function taskq.cause(p_text text)
returns text
language sql immutable parallel safe
as $$
    select coalesce(
        regexp_replace(
            left(p_text, 300), e'0x[0-9a-fA-F]+|\\m[0-9a-f]{8,}\\M|[0-9]+([.,][0-9]+)*', '#', 'g'),
        '')
$$;
