-- sort_of_end(outcome, error_class, result, field): the sort of an end, for `end_sum`: the class of error, empty if there
-- is none; of a success the shape of its result, see shape_of(). Inlined into the calling statement.
create or replace function taskq.sort_of_end(
    p_outcome taskq.attempt_outcome, p_error_class text, p_result jsonb, p_field text)
returns text
language sql immutable parallel safe
as $$
    select case when p_outcome in ('done', 'withdrawn') then taskq.shape_of(p_result, p_field)
                else coalesce(p_error_class, '') end
$$;
