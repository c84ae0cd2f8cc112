-- submit_calls(path, campaign, tasks): seeds a few tasks under keys of their own, and says which tasks they are.
--
-- Works like seed_tasks() with 'skip': a key that is there keeps its payload. campaign: the id of the one
-- at the path; tasks: each has a key.
-- Result: one row for each key; added: how many tasks the call has added, the same in each row.
-- Error TQ404: the campaign at the path is another one, since it was removed and created again.
-- @roles submitter
-- @gateway manager, wakes
-- @repeat safe
-- @act no: tasks have their time, and the campaign its owner
create or replace function taskq.submit_calls(p_path text, p_campaign bigint, p_tasks text)
returns table (key text, task_id bigint, added integer)
language plpgsql
as $$
declare
    v_added integer;
begin
    if taskq.campaign_id(p_path) <> p_campaign then
        raise exception 'no campaign % with id %', p_path, p_campaign using errcode = 'TQ404';
    end if;
    v_added := (taskq.seed_tasks(p_path, p_tasks, 'skip', 0)).added;
    return query
        select i.key, i.task_id, v_added
          from taskq.task_ids(p_campaign, array(
              select t.key from json_to_recordset(p_tasks::json) as t (key text))) i;
end
$$;
