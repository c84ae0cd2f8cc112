-- release(path, task, lease, started): hands an attempt back; it counts neither as a failure nor as a loss;
-- see report(). started: whether work on it had begun; if not, its number is used again.
-- @roles agent
create or replace function taskq.release(
    p_path text,
    p_task bigint,
    p_lease uuid,
    p_started boolean default false
)
returns text
language plpgsql
as $$
begin
    return taskq.report(
        p_path, p_task, p_lease, 'released', jsonb_build_object('started', p_started));
end
$$;
