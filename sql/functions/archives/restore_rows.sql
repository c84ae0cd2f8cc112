-- restore_rows(path, manifest, after, many, campaign, name, rows): puts the next rows of an archive into the tables, and
-- notes how many are there, so that a restore continues after an interruption; see begin_restore().
--
-- after: how many rows there were before these; many: how many these are. campaign: its number in the archive, from 1.
-- name: of the table of the archive. rows: a JSON array of objects; texts that hold JSON are texts.
-- Result: after + many. Error TQ409: the campaign is not being restored from this archive, or somebody else does.
-- Error TQ400: a payload or result is too large, see json_fault(). Error 23...: what the tables refuse.
--
-- Locks: the row in `archive`, so of two restores one waits; the row of `summed`; a few of output_use; that of the campaign above in
-- `removed_sum`.
-- Index: archive_pkey, campaign_path_key, and the primary keys of the tables.
-- @roles operator
-- @gateway no
-- @act no: end_restore() notes it
-- @plan custom no-jit
create or replace function taskq.restore_rows(
    p_path text,
    p_manifest text,
    p_after bigint,
    p_many integer,
    p_campaign integer,
    p_name text,
    p_rows text)
returns bigint
language plpgsql
as $$
declare
    v_id constant bigint := taskq.campaign_id(p_path);
    v_rows constant jsonb := p_rows;
    v_archive taskq.archive;
    v_campaign bigint;
    v_task bigint;
    v_session bigint;
    v_fault text;
    v_summed timestamptz;
    v_ends taskq.ends[];
    v_done bigint := 0;
    v_failed bigint := 0;
    v_failures bigint := 0;
begin
    select a.* into v_archive from taskq.archive a where a.campaign_id = v_id for update;
    if (v_archive.restoring ->> 'manifest' = p_manifest
        and v_archive.restored = p_after
        and (select c.status = 'archived' from taskq.campaign c where c.campaign_id = v_id)) is not true
    then
        raise exception 'campaign % is not being restored from this archive, or somebody else does it', p_path
            using errcode = 'TQ409';
    end if;
    v_campaign := v_archive.restoring -> 'campaigns' -> (p_campaign - 1);
    v_task := v_archive.restoring -> 'task';
    v_session := v_archive.restoring -> 'session';

    if p_name = 'recipes' then
        insert into taskq.recipe (campaign_id, change, recipe, changed_at, changed_by, handler, params, inputs)
        select v_campaign, r.change, r.recipe, r.changed_at, r.changed_by, r.handler::jsonb, r.params::jsonb,
               r.inputs::jsonb
          from jsonb_to_recordset(v_rows) as r (
              change integer, recipe integer, changed_at timestamptz, changed_by text, handler text, params text,
              inputs text);
    elsif p_name = 'arguments' then
        insert into taskq.argument (campaign_id, digest, size)
        select v_campaign, r.digest, r.size from jsonb_to_recordset(v_rows) as r (digest text, size bigint);
        perform taskq.use_output(v_campaign, -1, ('x' || left(r.digest, 2))::bit(8)::integer, r.size)
           from jsonb_to_recordset(v_rows) as r (digest text, size bigint);
    elsif p_name = 'trends' then
        insert into taskq.trend (campaign_id, minute, done, failed, failures, unfinished, working, agents)
        select v_campaign, r.minute, r.done, r.failed, r.failures, r.unfinished, r.working, r.agents
          from jsonb_to_recordset(v_rows) as r (
              minute integer, done bigint, failed bigint, failures bigint, unfinished bigint, working integer,
              agents integer);
    elsif p_name = 'sessions' then
        -- Of its own archive, the database may have them still. Others had tokens of another database: as sessions
        -- without one they would count as agents with a connection of their own, whose pickles the owner reads.
        insert into taskq.session (
               session_id, key, campaign_id, opened_at, heartbeat_at, lease_s, ended_at, expired, slots, pid, agent,
               host, site, release, offers, token_id, token_hash, address, left_why, end_class, exit_code, attempts,
               suspect)
        overriding system value
        select r.session_id + v_session, gen_random_uuid(), v_id, r.opened_at, r.heartbeat_at, r.lease_s,
               coalesce(r.ended_at, r.heartbeat_at), r.expired, r.slots, r.pid, r.agent, r.host, r.site, r.release,
               array(select jsonb_array_elements_text(r.offers)), k.token_id,
               case when k.token_id is not null
                    then sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())) end,
               r.address::inet, r.left_why, r.end_class, r.exit_code, r.attempts, r.suspect
          from jsonb_to_recordset(v_rows) as r (
              session_id bigint, token_id bigint, opened_at timestamptz, heartbeat_at timestamptz,
              ended_at timestamptz, lease_s double precision, expired boolean, slots integer, pid integer, agent text,
              host text, site text, release text, offers jsonb, address text, left_why text, end_class text,
              exit_code integer, attempts integer, suspect text)
         cross join lateral (
             select case when (v_archive.restoring -> 'own')::boolean then r.token_id else -1 end as token_id) k
            on conflict (session_id) do nothing;
        perform
           from jsonb_to_recordset(v_rows) as r (session_id bigint, agent text, opened_at timestamptz)
          cross join lateral taskq.session_of(r.session_id + v_session) n
          where (n.agent, n.opened_at) is distinct from (r.agent, r.opened_at);
        if found then
            raise exception 'agents here have the ids of other agents of the archive, which a copy of this database '
                            'has made: remove its file manifest.seal, and all ids are new'
                using errcode = 'TQ409';
        end if;
    elsif p_name = 'tasks' then
        select min(f.fault) into v_fault
          from jsonb_to_recordset(v_rows) as r (payload text)
         cross join lateral taskq.json_fault(r.payload, 65536, 64) f (fault);
        if v_fault is not null then
            raise exception 'a payload %', v_fault using errcode = 'TQ400';
        end if;
        insert into taskq.spec (campaign_id, task_id, priority, key, payload)
        overriding system value
        select v_campaign, r.task_id + v_task, r.priority, r.key, r.payload::jsonb
          from jsonb_to_recordset(v_rows) as r (task_id bigint, priority smallint, key text, payload text);
        with r as materialized (
            select r.*
              from jsonb_to_recordset(v_rows) as r (
                  task_id bigint, priority smallint, status taskq.task_status, attempt integer, lease_id uuid,
                  claimed_at timestamptz, due_at timestamptz, failures smallint, losses smallint, avoids jsonb)
             where r.status <> 'done'
        ), stored as (
            insert into taskq.task (
                   campaign_id, task_id, lease_id, claimed_at, due_at, status, attempt, priority, failures, losses,
                   avoids)
            select v_campaign, r.task_id + v_task, r.lease_id, r.claimed_at, r.due_at, r.status,
                   coalesce(r.attempt, 0), r.priority, coalesce(r.failures, 0), coalesce(r.losses, 0),
                   case when jsonb_typeof(r.avoids) = 'array'
                        then array(select jsonb_array_elements_text(r.avoids)::integer) end
              from r
        )
        insert into taskq.delta (campaign_id, failed, cancelled)
        select v_campaign, count(*) filter (where r.status = 'failed'), count(*) filter (where r.status = 'cancelled')
          from r
        having count(*) > 0
     returning failed into v_failed;
    elsif p_name = 'attempts' then
        select min(f.fault) into v_fault
          from jsonb_to_recordset(v_rows) as r (result text, phases text)
         cross join lateral (values (r.result), (r.phases)) as j (value)
         cross join lateral taskq.json_fault(j.value, 294912, 101) f (fault);
        if v_fault is not null then
            raise exception 'a result %', v_fault using errcode = 'TQ400';
        end if;
        if exists (
            select
              from jsonb_to_recordset(v_rows) as r (ended_at timestamptz)
             where r.ended_at > clock_timestamp() + interval '1 day')
        then
            raise exception 'an attempt that ends in the future' using errcode = 'TQ400';
        end if;
        select s.until into v_summed from taskq.summed s where s.only_one for share;
        with stored as materialized (
            insert into taskq.attempt as a (
                   campaign_id, task_id, attempt, exit_code, lease_id, session_id, claimed_at, ended_at, outcome,
                   error_class, error, result, phases, tail, refused, recipe)
            select v_campaign, r.task_id + v_task, r.attempt, r.exit_code, r.lease_id, r.session_id + v_session,
                   r.claimed_at, r.ended_at, r.outcome, r.error_class, r.error, r.result::jsonb, r.phases::jsonb,
                   r.tail, r.refused, r.recipe
              from jsonb_to_recordset(v_rows) as r (
                  task_id bigint, attempt integer, exit_code integer, lease_id uuid, session_id bigint,
                  claimed_at timestamptz, ended_at timestamptz, outcome taskq.attempt_outcome, error_class text,
                  error text, result text, phases text, tail text, refused boolean, recipe integer)
         returning a as whole, a.ended_at, a.outcome, a.error_class, a.attempt
        ), counted as (
            insert into taskq.delta (campaign_id, done, failures, losses, first_failures)
            select v_campaign, count(*) filter (where s.outcome = 'done'),
                   count(*) filter (where s.outcome = 'failed'),
                   count(*) filter (where taskq.is_loss(s.outcome, s.error_class)),
                   count(*) filter (where s.outcome = 'failed' and s.attempt = 1)
              from stored s
         returning done, failures + losses as failures
        )
        -- The keeper will add them, although they were summed where they ran.
        select array_agg(taskq.end_of_attempt(s.whole, -1)),
               (select c.done from counted c), (select c.failures from counted c)
          into v_ends, v_done, v_failures
          from stored s
         where s.ended_at >= v_summed;
        if v_ends is not null then
            perform taskq.add_ends(v_ends);
        end if;
    elsif p_name = 'withdrawals' then
        insert into taskq.withdrawal (campaign_id, task_id, attempt, withdrawn_at)
        select v_campaign, r.task_id + v_task, r.attempt, r.withdrawn_at
          from jsonb_to_recordset(v_rows) as r (task_id bigint, attempt integer, withdrawn_at timestamptz);
    elsif p_name = 'outputs' then
        insert into taskq.output (campaign_id, task_id, lease_id, token_id, digest, size, decided)
        select v_campaign, r.task_id + v_task, r.lease_id, 0, r.digest, r.size, true
          from jsonb_to_recordset(v_rows) as r (task_id bigint, lease_id uuid, digest text, size bigint);
        perform taskq.use_output(v_campaign, 0, r.task_id + v_task, r.size)
           from jsonb_to_recordset(v_rows) as r (task_id bigint, size bigint)
          order by (r.task_id + v_task) % 16;
    elsif p_name <> 'blobs' then
        raise exception 'an archive has no table %', quote_literal(p_name) using errcode = 'TQ400';
    end if;
    if v_done + v_failed + v_failures > 0 then
        insert into taskq.removed_sum as r (campaign_id, done, failed, failures)
        select c.parent_id, -v_done, -v_failed, -v_failures
          from taskq.campaign c
         where c.campaign_id = v_id
            on conflict (campaign_id) do update
           set done = r.done + excluded.done,
               failed = r.failed + excluded.failed,
               failures = r.failures + excluded.failures;
    end if;
    update taskq.archive a set restored = p_after + p_many where a.campaign_id = v_id;
    return p_after + p_many;
end
$$;
