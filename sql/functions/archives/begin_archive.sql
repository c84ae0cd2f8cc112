-- begin_archive(path): makes an ended campaign archived, with all below it: nothing can change them any more, until
-- somebody resumes or removes the campaign.
--
-- archive: the number of this archive; the one from before, if the campaign is archived already.
-- tasks: how many it has with all below. begun_at: when this archive was begun.
-- Error TQ404: no such campaign. Error TQ400: the root. Error TQ409: tasks have not ended; a campaign above or below is
--     archived; it is being restored.
--
-- A number is drawn each time, so that an archive of an earlier state is recognised.
--
-- Locks: for each campaign, in their order, the lock of seed_begin(), and its row, so that seeds, retries and late
-- results come before or see it. Index: campaign_path_key, and those of counts().
-- @roles operator
-- @gateway no
-- @act archive
-- @plan generic by-key
create or replace function taskq.begin_archive(
    p_path text, out archive uuid, out tasks bigint, out begun_at timestamptz)
language plpgsql
as $$
declare
    v_id constant bigint := taskq.campaign_id(p_path);
    v_campaign bigint;
    v_status taskq.campaign_status;
    v_other text;
    v_unfinished bigint;
begin
    perform taskq.demand_read_committed();
    if p_path = '/' then
        raise exception 'the root cannot be archived: name a campaign below it' using errcode = 'TQ400';
    end if;
    for v_campaign in select c.campaign_id from taskq.subtree(p_path) c order by c.campaign_id loop
        perform pg_advisory_xact_lock(hashtext('taskq.seed'), hashint8(v_campaign));
        perform from taskq.campaign c where c.campaign_id = v_campaign for update;
    end loop;
    select c.status into v_status from taskq.campaign c where c.campaign_id = v_id;
    if exists (select from taskq.archive a where a.campaign_id = v_id and a.restoring is not null) then
        raise exception 'campaign % is not restored as a whole: repeat taskq campaign restore, or remove it', p_path
            using errcode = 'TQ409';
    end if;
    select min(a.path) into v_other
      from taskq.archive g
     cross join lateral taskq.campaign_of(g.campaign_id) a
     where a.path <> p_path
       and a.status = 'archived'
       and (taskq.at_or_below(a.path, p_path) or taskq.at_or_below(p_path, a.path));
    if v_other is not null then
        raise exception 'campaign % is archived already, with all below it; resume it first', v_other
            using errcode = 'TQ409';
    end if;
    select n.waiting + n.delayed + n.working,
           n.waiting + n.delayed + n.working + n.done + n.failed + n.cancelled
      into v_unfinished, tasks
      from taskq.counts(p_path, 0) n;
    if v_unfinished > 0 then
        raise exception '% cannot be archived yet: of its tasks, and of those below, % have not ended', p_path, v_unfinished
            using errcode = 'TQ409';
    end if;
    if v_status = 'archived' then
        select a.number, a.begun_at into archive, begun_at from taskq.archive a where a.campaign_id = v_id;
        return;
    end if;
    archive := gen_random_uuid();
    begun_at := clock_timestamp();
    insert into taskq.archive (campaign_id, number, status_before, begun_at, login)
    values (v_id, archive, v_status, begun_at, session_user)
        on conflict (campaign_id) do update
       set number = excluded.number, status_before = excluded.status_before, begun_at = excluded.begun_at,
           login = excluded.login, place = null, digest = null;
    update taskq.campaign c set status = 'archived', paused_why = null where c.campaign_id = v_id;
    perform taskq.note_act(p_path, 'archive', '{}', tasks);
end
$$;
