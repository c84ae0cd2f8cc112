-- submit(path, tasks, on_conflict): seeds a few tasks in one call.
--
-- Works like seed_tasks(), with the same errors. Result: how many were added. Error TQ422 names at most ten
-- conflicts.
-- @roles submitter
-- @gateway manager, wakes
-- @repeat safe
-- @act no: tasks have their time, and the campaign its owner
create or replace function taskq.submit(
    p_path text, p_tasks text, p_on_conflict text default 'fail')
returns integer
language sql
as $$
    select added from taskq.seed_tasks(p_path, p_tasks, p_on_conflict, 10)
$$;
