-- save_output(session, campaign, task, lease, digest, size): makes a blob the output files of an attempt.
--
-- session: the one that saves, with its rights, see may_report(); null: a direct client.
-- saved: whether it was saved; false: nothing has changed, since no attempt holds the task under this lease
--     or was lost under it, or the attempt is another session's. A second call replaces what the attempt
--     saved before.
-- replaced: the digest of that, to which nothing refers any more; or null.
-- Error TQ400: the campaign keeps no output files, or none so large. Error TQ409: it, or the session's token,
--     has no room for them; several callers at the same time may each find the last room.
--
-- The caller checks that the blob exists and is an archive of this task. The task itself is neither locked
-- nor unpacked: end_outputs() decides by the lease, when the task is final, whether the files count.
--
-- Locks: a row of output_use. Index: task_pkey, bundle_task, attempt_pkey, output_pkey, output_digest,
-- output_use_pkey, output_use_token, token_pkey, session_pkey.
-- @roles serving
-- @plan generic by-key
create or replace function taskq.save_output(
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
    v_campaign taskq.campaign;
    v_token bigint := 0;
    v_most bigint;
    v_owner bigint;
    v_before bigint := 0;
begin
    select c.* into v_campaign from taskq.campaign c where c.campaign_id = p_campaign;
    if (p_size between 1 and v_campaign.output_bytes) is not true then
        raise exception 'output files of % bytes; the campaign keeps % of a task at most',
            p_size, coalesce(v_campaign.output_bytes, 0)
            using errcode = 'TQ400';
    end if;
    saved := false;
    v_owner := coalesce(
        (select t.session_id
           from taskq.task t
          where t.campaign_id = p_campaign
            and t.task_id = p_task
            and t.lease_id = p_lease
            and t.status::text = 'working'),
        (select b.session_id from taskq.bundle_of(p_campaign, p_task) b where b.lease_id = p_lease),
        (select a.session_id  -- a late result may be salvaged
           from taskq.attempt a
          where a.campaign_id = p_campaign
            and a.task_id = p_task
            and a.lease_id = p_lease
            and taskq.is_given_up(a.outcome, a.error_class)
          limit 1));
    if v_owner is null or not taskq.may_report(p_session, v_owner, p_campaign) then
        return;
    end if;
    if p_session is not null then
        select coalesce(s.token_id, 0) into v_token
          from taskq.session s
         where s.session_id = p_session;
    end if;
    -- The lock comes before the look: the same save, twice at once, would be counted twice.
    perform taskq.use_output(p_campaign, v_token, p_task, 0);
    select o.digest, o.size into replaced, v_before
      from taskq.output o
     where o.campaign_id = p_campaign
       and o.task_id = p_task
       and o.lease_id = p_lease;
    saved := true;
    if replaced = p_digest then
        replaced := null;
        return;
    end if;
    v_before := coalesce(v_before, 0);
    if p_size - v_before + (
           select coalesce(sum(u.bytes), 0)
             from taskq.output_use u
            where u.campaign_id = p_campaign
              and u.token_id >= 0)
       > v_campaign.output_total_bytes
    then
        raise exception 'campaign % keeps % bytes of output files at most; raise output_total_bytes, or remove '
            'tasks', v_campaign.path, v_campaign.output_total_bytes
            using errcode = 'TQ409';
    end if;
    select t.max_output_bytes into v_most from taskq.token t where t.token_id = v_token;
    if found and p_size - v_before + (
           select coalesce(sum(u.bytes), 0) from taskq.output_use u where u.token_id = v_token)
       > v_most
    then
        raise exception 'agents of this token may have stored % bytes of output files at most', v_most
            using errcode = 'TQ409';
    end if;
    perform taskq.use_output(p_campaign, v_token, p_task, p_size - v_before);
    insert into taskq.output as o (campaign_id, task_id, lease_id, token_id, digest, size)
    values (p_campaign, p_task, p_lease, v_token, p_digest, p_size)
        on conflict (campaign_id, task_id, lease_id) do update
       set digest = excluded.digest, size = excluded.size;
    perform from taskq.output o where o.digest = replaced;
    if found then  -- another attempt of the task has left the same files
        replaced := null;
    end if;
end
$$;
