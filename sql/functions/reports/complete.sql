-- complete(path, task, lease, result): an attempt succeeded; see report().
-- @roles agent
create or replace function taskq.complete(
    p_path text,
    p_task bigint,
    p_lease uuid,
    p_result jsonb default '{}'
)
returns text
language plpgsql
as $$
begin
    return taskq.report(p_path, p_task, p_lease, 'done', jsonb_build_object('result', p_result));
end
$$;
