-- Pilots: agents that the queue starts itself, as jobs of batch systems.
--
-- A pilot says on which batch system, with what, and for which campaigns; a pilot job is one batch job of
-- it, which carries one agent. A loop outside the database submits them (`taskq pilots run`); all that it
-- has to know is here, so that another can go on where it ended.

-- name, key, number: a job's name is taskq-NAME-KEY-NUMBER, in the batch system and as its agent's name. key
--     is random, so that no two queues, and no two pilots of one name, have jobs of one name. Its collation is
--     that of session.agent: the index there is of no use for another one. next_number: of the next job.
-- path: the campaign that its agents serve, with all below it. driver, settings: see taskq/pilots/settings.py.
-- status: paused: no job is submitted; removed: and the row goes when the last job has ended. paused_why:
--     why it paused itself; null: it did not.
-- failures: submissions that failed, and jobs that died before their agent was heard, one after the other.
--     failed_at: the last of them. trouble: what the batch system said of it; retry_at: nothing is submitted
--     before.
-- holder, held_until: the loop that acts for it, see functions/hold_pilot.sql. looked_at, looked_from: when
--     one acted last, and on which host.
create table taskq.pilot (
    pilot_id bigint generated always as identity,
    name text not null,
    key text not null,
    path text collate "C" not null,
    driver text not null,
    settings jsonb not null,
    status text not null default 'active',
    paused_why text,
    failures integer not null default 0,
    failed_at timestamptz,
    trouble text,
    retry_at timestamptz,
    next_number integer not null default 1,
    holder uuid,
    held_until timestamptz,
    looked_at timestamptz,
    looked_from text,
    created_at timestamptz not null default clock_timestamp(),
    constraint pilot_pkey primary key (pilot_id),
    constraint pilot_name_key unique (name),
    constraint pilot_name_form check (name ~ '^[a-z0-9][a-z0-9-]{0,39}$'),
    constraint pilot_key_form check (key ~ '^[0-9a-f]{8}$'),
    constraint pilot_driver_length check (length(driver) between 1 and 40),
    constraint pilot_settings_object check (
        jsonb_typeof(settings) = 'object' and octet_length(settings::text) <= 65536),
    constraint pilot_status_known check (status in ('active', 'paused', 'removed')),
    constraint pilot_texts_length check (
        length(trouble) <= 2000 and length(paused_why) <= 3000 and length(looked_from) <= 200)
);

-- status: submitting: the loop is about to submit it, or died when it was; queued, running: as the batch
--     system says; ended. native_id: the batch system's name for it. place: the host, where the driver chose it.
-- began_at: when it was created here; submitted_at, started_at, ended_at: when the loop saw it so. heard_at:
--     when its agent opened a session. cancelled_at: when the loop asked the batch system to end it.
-- outcome, of one that has ended: served (its agent was heard), died (it was not), refused (the batch system
--     did not take it), cancelled (before its agent was heard). why, exit_code, tail: the batch system's
--     words, the agent's exit code, the end of what the job wrote.
create table taskq.pilot_job (
    pilot_id bigint not null,
    number integer not null,
    status text not null default 'submitting',
    native_id text,
    place text,
    began_at timestamptz not null,
    submitted_at timestamptz,
    started_at timestamptz,
    heard_at timestamptz,
    cancelled_at timestamptz,
    ended_at timestamptz,
    outcome text,
    why text,
    exit_code integer,
    tail text,
    constraint pilot_job_pkey primary key (pilot_id, number),
    constraint pilot_job_pilot_fkey foreign key (pilot_id) references taskq.pilot on delete cascade,
    constraint pilot_job_status_known check (status in ('submitting', 'queued', 'running', 'ended')),
    constraint pilot_job_outcome_known check (outcome in ('served', 'died', 'refused', 'cancelled')),
    constraint pilot_job_ends_so check (
        (status = 'ended') = (ended_at is not null) and (status = 'ended') = (outcome is not null)),
    constraint pilot_job_texts_length check (
        length(native_id) <= 200 and length(place) <= 200 and length(why) <= 2000 and length(tail) <= 4000)
);

create index pilot_job_live on taskq.pilot_job (pilot_id, number) where status <> 'ended';

-- Whether a job's agent was heard. No heartbeat writes it, and its predicate is one that no other statement
-- implies.
create index session_pilot on taskq.session (agent) where agent like 'taskq-%';
