-- fail(path, task, lease, error_class, error, retry): an attempt failed; see report().
--
-- retry: whether a further attempt may help; false fails the task for good.
-- @roles agent
create or replace function taskq.fail(
    p_path text,
    p_task bigint,
    p_lease uuid,
    p_error_class text,
    p_error text default '',
    p_retry boolean default true
)
returns text
language plpgsql
as $$
begin
    return taskq.report(p_path, p_task, p_lease, 'failed', jsonb_build_object(
        'error_class', p_error_class, 'error', p_error, 'retry', p_retry));
end
$$;
