-- is_reference(result): whether a result stands for a blob that holds it. Inlined into the calling statement.
create or replace function taskq.is_reference(p_result jsonb)
returns boolean
language sql immutable parallel safe
as $$
    select jsonb_typeof(p_result) = 'object' and p_result ? 'taskq_blob' and p_result - 'taskq_blob' = '{}'
$$;
