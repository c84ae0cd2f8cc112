-- begin_restore(path, campaigns, manifest, seal, first_task, last_task, first_session, last_session): makes the campaigns
-- of an archive, as the one at the path and those below it. They are archived until end_restore(), so nobody claims,
-- seeds or changes anything of them; they can be removed.
--
-- campaigns: a JSON array of objects, in the order of paths: campaign_id, that of the archive; path, the new one; status,
--     owner, created_at, recipe, hedged, payload_bytes; body, the settings as change_campaign() takes them.
-- manifest: the digest of the archive's manifest. seal: see archive_seal(); with the right one the archive is this
--     database's own: its campaigns keep their owner, its sessions their token, and all their ids if these are free.
--     Otherwise the campaigns belong to the caller, the sessions to no agent that anybody trusts, and all ids are new.
-- first_task and the others: the smallest and largest ids of the archive; 0 and 0: there are none.
-- restored: how many rows are in the tables already: 0, unless the same archive was begun at this path before.
-- own: whether the archive is this database's own.
-- Error TQ404: no such campaign above it, or no such limit. Error TQ409: the campaign exists; one above it is archived.
--     Errors of change_campaign(): a handler that has agents unpickle something needs the right to that.
--
-- Locks: an advisory lock against other restores; sequences, see reserved_ids(). Index: campaign_path_key.
-- @roles operator
-- @gateway no
-- @act no: end_restore() notes it
create or replace function taskq.begin_restore(
    p_path text,
    p_campaigns text,
    p_manifest text,
    p_seal text,
    p_first_task bigint,
    p_last_task bigint,
    p_first_session bigint,
    p_last_session bigint,
    out restored bigint,
    out own boolean)
language plpgsql
as $$
declare
    v_parent_path constant text := coalesce(nullif(regexp_replace(p_path, '/[^/]*$', ''), ''), '/');
    v_campaigns constant jsonb := p_campaigns;
    v_known taskq.archive;
    v_same boolean;
    v_add_task bigint := 0;
    v_add_session bigint := 0;
    v_parent taskq.campaign;
    v_one record;
    v_owner text;
    v_id bigint;
    v_ids bigint[] := '{}';
begin
    perform taskq.demand_read_committed();
    own := p_seal = taskq.archive_seal(p_manifest);
    perform pg_advisory_xact_lock(hashtext('taskq.restore'), 0);
    perform from taskq.campaign c where c.path = p_path;
    if found then
        select a.* into v_known
          from taskq.campaign c
          join taskq.archive a on a.campaign_id = c.campaign_id
         where c.path = p_path
           and c.status = 'archived';
        if v_known.restoring ->> 'manifest' = p_manifest then
            restored := v_known.restored;
            return;
        end if;
        raise exception 'campaign % exists already: restore to another path (--as), or remove it', p_path
            using errcode = 'TQ409';
    end if;
    if p_path = '/' then
        raise exception 'an archive is restored below the root' using errcode = 'TQ400';
    end if;
    perform from taskq.campaign c where c.path = v_parent_path;
    if not found then
        perform taskq.create_campaign(v_parent_path);
    end if;
    v_same := own
        and p_last_task < (select q.last_value + q.is_called::integer from taskq.spec_task_id_seq q)
        and p_last_session < (select q.last_value + q.is_called::integer from taskq.session_session_id_seq q)
        and not exists (
            select
              from jsonb_array_elements(v_campaigns) as k (value)
             where (k.value ->> 'campaign_id')::bigint
                   >= (select q.last_value + q.is_called::integer from taskq.campaign_campaign_id_seq q)
                or exists (
                    select from taskq.campaign c where c.campaign_id = (k.value ->> 'campaign_id')::bigint));
    if not v_same and p_last_task > 0 then
        v_add_task := taskq.reserved_ids('taskq.spec_task_id_seq', p_last_task - p_first_task + 1) - p_first_task;
    end if;
    if not own and p_last_session > 0 then
        v_add_session := taskq.reserved_ids('taskq.session_session_id_seq', p_last_session - p_first_session + 1)
                         - p_first_session;
    end if;
    for v_one in
        select k.*
          from jsonb_to_recordset(v_campaigns) as k (
              campaign_id bigint, path text, status taskq.campaign_status, owner text, created_at timestamptz,
              recipe integer, hedged bigint, payload_bytes integer, body text)
         order by k.path collate "C"
    loop
        if not taskq.at_or_below(v_one.path, p_path)
           or v_one.path !~ '^(/[A-Za-z0-9][A-Za-z0-9._+@=,-]{0,99})+$' or length(v_one.path) > 1000 then
            raise exception 'campaign path % is not well formed', quote_literal(v_one.path) using errcode = 'TQ400';
        end if;
        v_owner := coalesce(case when own then v_one.owner end, taskq.token_setting('token_name'), session_user);
        perform pg_advisory_xact_lock_shared(-3, hashtext(v_owner));
        select c.* into v_parent
          from taskq.campaign c
         where c.path = coalesce(nullif(regexp_replace(v_one.path, '/[^/]*$', ''), ''), '/');
        if v_one.path = p_path then
            perform taskq.demand_not_archived(v_parent.campaign_id);
        end if;
        v_id := case when v_same then v_one.campaign_id
                     else nextval(pg_get_serial_sequence('taskq.campaign', 'campaign_id')) end;
        update taskq.campaign c set has_below = true where c.campaign_id = v_parent.campaign_id and not c.has_below;
        insert into taskq.campaign (campaign_id, parent_id, path, lineage, owner, running_quota)
        overriding system value
        values (v_id, v_parent.campaign_id, v_one.path, v_parent.lineage || v_id, v_owner,
                taskq.running_quota(v_owner));
        insert into taskq.counter (campaign_id) values (v_id);
        insert into taskq.subtotal (campaign_id) values (v_id);
        insert into taskq.delta (campaign_id, children) values (v_parent.campaign_id, 1);
        perform taskq.change_campaign(v_one.path, v_one.body);
        update taskq.campaign c
           set created_at = v_one.created_at,
               recipe = v_one.recipe,
               hedged = v_one.hedged,
               payload_bytes = v_one.payload_bytes,
               status = v_one.status
         where c.campaign_id = v_id;
        -- What it used is counted where it ran; without sums of a campaign that was removed, as after remove_tasks(), the
        -- audit would look for it here.
        perform taskq.add_used(array[
            (v_one.path, 'month', date_trunc('month', v_one.created_at, 'UTC'), -v_id, v_owner, '', 'done', 0, 0, 0,
             0)::taskq.usage]);
        v_ids := v_ids || v_id;
    end loop;
    insert into taskq.archive (campaign_id, number, status_before, begun_at, login, restoring)
    select c.campaign_id, gen_random_uuid(), c.status, clock_timestamp(), session_user,
           jsonb_build_object('manifest', p_manifest, 'own', own, 'task', v_add_task, 'session', v_add_session,
                              'campaigns', v_ids)
      from taskq.campaign c
     where c.campaign_id = v_ids[1];
    update taskq.campaign c set status = 'archived' where c.campaign_id = v_ids[1];
    restored := 0;
end
$$;
