-- reserved_ids(sequence, many): the first of so many ids that no other caller gets. A part of begin_restore(); not for
-- clients. Locks: the sequence until the commit, as mend_sequences() does.
create or replace function taskq.reserved_ids(p_sequence text, p_many bigint)
returns bigint
language plpgsql
as $$
declare
    v_first bigint;
begin
    execute format('alter sequence %s no cycle', p_sequence);  -- changes nothing, but locks
    execute format('select q.last_value + q.is_called::integer from %s q', p_sequence) into v_first;
    execute format('alter sequence %s restart with %s', p_sequence, v_first + p_many);
    return v_first;
end
$$;
