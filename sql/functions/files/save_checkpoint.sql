-- save_checkpoint(session, campaign, task, lease, digest, size): makes a blob the checkpoint of a task, for
-- the session that works on it now.
--
-- session: the one that saves, with its rights, see may_report(); null: a direct client.
-- saved: whether it is the task's checkpoint; false: the lease is no longer the task's, or not the
--     session's, and nothing has changed: a late attempt overwrites nothing of a newer one.
-- replaced: the digest of the one before, to which nothing refers any more; or null.
-- Error TQ400: the campaign keeps no checkpoints, or none so large.
--
-- The caller checks that the blob exists and is an archive of this task.
--
-- Locks: the task's bundle, see unpack(); its row; that of the checkpoint. Index: bundle_task, task_pkey,
-- checkpoint_pkey.
-- @roles serving
-- @plan generic by-key
create or replace function taskq.save_checkpoint(
    p_session bigint,
    p_campaign bigint,
    p_task bigint,
    p_lease uuid,
    p_digest text,
    p_size bigint,
    out saved boolean,
    out replaced text
)
language plpgsql
as $$
declare
    v_most integer;
    v_owner bigint;
    v_attempt integer;
begin
    select c.checkpoint_bytes into v_most
      from taskq.campaign c
     where c.campaign_id = p_campaign;
    if (p_size between 1 and v_most) is not true then
        raise exception 'a checkpoint of % bytes; the campaign keeps % at most', p_size, coalesce(v_most, 0)
            using errcode = 'TQ400';
    end if;
    saved := false;
    perform taskq.unpack(p_campaign, array[p_task], array[p_lease], true);
    select t.session_id, t.attempt into v_owner, v_attempt
      from taskq.task t
     where t.campaign_id = p_campaign
       and t.task_id = p_task
       and t.lease_id = p_lease
       and t.status::text = 'working'
       for no key update;
    if not found or not taskq.may_report(p_session, v_owner, p_campaign) then
        return;
    end if;
    saved := true;
    select k.digest into replaced
      from taskq.checkpoint k
     where k.campaign_id = p_campaign
       and k.task_id = p_task;
    if replaced = p_digest then
        replaced := null;
        return;
    end if;
    insert into taskq.checkpoint as k (campaign_id, task_id, lease_id, attempt, digest, size)
    values (p_campaign, p_task, p_lease, v_attempt, p_digest, p_size)
        on conflict (campaign_id, task_id) do update
       set lease_id = excluded.lease_id,
           attempt = excluded.attempt,
           digest = excluded.digest,
           size = excluded.size;
end
$$;
