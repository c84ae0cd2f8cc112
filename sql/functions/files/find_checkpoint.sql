-- find_checkpoint(session, campaign, task, lease): the checkpoint of a task, and how often it has run out of
-- memory, for the session that works on it now.
--
-- session: see save_checkpoint(). Result: digest and size; nulls if there is none, or the lease is no
-- longer the task's, or not the session's.
--
-- A task that may have one has a row of its own, since an attempt has been handed back or lost. Index:
-- task_pkey, checkpoint_pkey, attempt_pkey.
-- @roles serving
-- @plan generic by-key
create or replace function taskq.find_checkpoint(
    p_session bigint,
    p_campaign bigint,
    p_task bigint,
    p_lease uuid,
    out digest text,
    out size bigint,
    out memory_failures bigint
)
language plpgsql stable
as $$
declare
    v_owner bigint;
begin
    select t.session_id into v_owner
      from taskq.task t
     where t.campaign_id = p_campaign
       and t.task_id = p_task
       and t.lease_id = p_lease
       and t.status::text = 'working';
    if found and taskq.may_report(p_session, v_owner, p_campaign) then
        select k.digest, k.size into digest, size
          from taskq.checkpoint k
         where k.campaign_id = p_campaign
           and k.task_id = p_task;
        select count(*) into memory_failures
          from (
              select a.outcome, a.error_class
                from taskq.attempt a
               where a.campaign_id = p_campaign
                 and a.task_id = p_task
               order by a.campaign_id desc, a.task_id desc, a.attempt desc
               limit 1000
          ) a
         where a.outcome = 'failed'
           and a.error_class = 'out-of-memory';
    end if;
end
$$;
