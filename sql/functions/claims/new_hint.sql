-- new_hint(span_rank, span): a hint, see hint(), that begins before all rows, and at a span; it expires when
-- keep_position() has seen how long the search took. Inlined into the calling statement.
create or replace function taskq.new_hint(p_span_rank bigint, p_span bigint)
returns bigint[]
language sql
as $$
    select array[-32768, 0, (date_part('epoch', clock_timestamp()) * -1000000)::bigint, 0, p_span_rank, p_span]
$$;
