-- The tables of taskq.
--
-- A campaign is a node of a tree and holds tasks. What a task *is* (its spec: key, payload) is
-- written once and never touched again; where it *stands* (its row in `task`) is narrow and is
-- rewritten twice in an ordinary life: when an agent claims it and when the attempt ends. Keeping
-- the two apart keeps the payload and the index over keys, which has no locality, out of the way
-- of claims. An ended attempt is one row in `attempt`: result store, statistics and audit log in
-- one.
--
--     campaign 1 --- n task 1 --- 1 spec
--                       task 1 --- n attempt n --- 1 session
--
-- Rules that every function keeps:
--
--   * (task, lease_id) is the fence. A lease id is drawn by the caller of a claim; the server
--     never makes one up. Every word about an attempt names both, and a word whose lease is no
--     longer the task's changes nothing.
--   * Whoever moves tasks appends one row to `delta` in the same transaction. Counts are
--     counter + sum(delta), in one snapshot; see functions/fold.sql.
--   * Rows of several tasks are locked in the order of task_id; nobody waits in a circle.
--   * Only the database's clock decides about time, and never the transaction's start.
--   * The key of everything hot begins with the campaign, and a hot statement names one campaign,
--     so that the tables can be partitioned or distributed by it. There are no foreign keys from
--     hot rows: each would take a lock on the row it points to.

create schema taskq;

create type taskq.campaign_status as enum ('open', 'paused', 'cancelled');

create type taskq.task_status as enum
    ('waiting', 'delayed', 'working', 'done', 'failed', 'cancelled');

create type taskq.attempt_outcome as enum ('done', 'failed', 'lost', 'released', 'cancelled');


-- One row: what is installed. `functions` is a digest of the shipped function files.
create table taskq.installation (
    only_one boolean not null default true,
    version integer not null,
    functions text not null,
    constraint installation_pkey primary key (only_one),
    constraint installation_only_one check (only_one)
);


-- path: '/' or '/name/name', found by exact match; lineage: the ids from the root to the campaign
-- itself, so that "is any ancestor paused" is a few look-ups by key. revision rises with every
-- change of what agents keep of a campaign. Durations are in seconds.
create table taskq.campaign (
    campaign_id bigint generated always as identity,
    parent_id bigint,
    path text collate "C" not null,
    lineage bigint[] not null,
    status taskq.campaign_status not null default 'open',
    revision integer not null default 1,
    description text not null default '',
    handler jsonb,
    params jsonb not null default '{}',
    max_attempts integer not null default 3,
    max_losses integer not null default 5,
    backoff_s double precision not null default 10,
    backoff_max_s double precision not null default 3600,
    time_limit_s double precision,
    created_at timestamptz not null default clock_timestamp(),
    constraint campaign_pkey primary key (campaign_id),
    constraint campaign_path_key unique (path),
    constraint campaign_parent_fkey foreign key (parent_id) references taskq.campaign,
    constraint campaign_max_attempts_range check (max_attempts between 1 and 1000),
    constraint campaign_max_losses_range check (max_losses between 1 and 1000),
    constraint campaign_backoff_range
        check (backoff_s between 0 and backoff_max_s and backoff_max_s <= 31536000),
    constraint campaign_time_limit_range check (time_limit_s > 0 and time_limit_s <= 31536000),
    constraint campaign_handler_object check (jsonb_typeof(handler) = 'object'),
    constraint campaign_params_object check (jsonb_typeof(params) = 'object')
);

create index campaign_parent on taskq.campaign (parent_id, path);


-- What a task is. task_id follows the order of seeding.
create table taskq.spec (
    campaign_id bigint not null,
    task_id bigint generated always as identity,
    priority smallint not null default 0,
    key text collate "C" not null,
    payload jsonb not null,
    constraint spec_pkey primary key (campaign_id, task_id),
    constraint spec_key_key unique (campaign_id, key),
    constraint spec_key_length check (length(key) between 1 and 255),
    constraint spec_payload_object check (jsonb_typeof(payload) = 'object')
);


-- Where a task stands.
--
-- lease_id, session_id, claimed_at, attempt: of the current attempt while working, else of the
-- last one; attempt counts from 1 and is 0 before the first claim. due_at: while delayed.
-- failures, losses: attempts that failed, attempts whose agent was lost, since the last retry by
-- an operator.
create table taskq.task (
    campaign_id bigint not null,
    task_id bigint not null,
    lease_id uuid,
    session_id bigint,
    claimed_at timestamptz,
    due_at timestamptz,
    status taskq.task_status not null default 'waiting',
    attempt integer not null default 0,
    priority smallint not null default 0,
    failures smallint not null default 0,
    losses smallint not null default 0,
    constraint task_pkey primary key (campaign_id, task_id)
)
with (
    -- Rows are rewritten twice and sit beside their neighbours' dead versions; a vacuum that
    -- waits for a fifth of ten million rows would come too late for the index over waiting tasks.
    autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_vacuum_threshold = 50000
);

-- Claims walk this in order: highest priority first, then first seeded first. All columns
-- ascend, so that one row comparison says "after this position".
create index task_waiting on taskq.task (campaign_id, (-priority), task_id)
    where status = 'waiting';

-- The attempts in a session's hands. Lease ids lead with a time stamp, so entries arrive in order.
create index task_working on taskq.task (session_id, lease_id) where status = 'working';

create index task_delayed on taskq.task (due_at) where status = 'delayed';

create index task_failed on taskq.task (campaign_id, task_id) where status = 'failed';


-- How an attempt ended; appended, never changed.
-- phases: seconds by phase as the agent measured them. tail: the end of what the payload wrote.
create table taskq.attempt (
    campaign_id bigint not null,
    task_id bigint not null,
    attempt integer not null,
    exit_code integer,
    lease_id uuid not null,
    session_id bigint not null,
    claimed_at timestamptz not null,
    ended_at timestamptz not null,
    outcome taskq.attempt_outcome not null,
    error_class text,
    error text,
    result jsonb,
    phases jsonb,
    tail text,
    constraint attempt_pkey primary key (campaign_id, task_id, attempt)
)
with (autovacuum_vacuum_insert_scale_factor = 0.05);

create index attempt_unsuccessful on taskq.attempt (campaign_id, error_class, task_id)
    where outcome <> 'done';


-- An agent's presence, one row per process start; kept, since attempts refer to it.
-- key: drawn by the agent, makes opening repeatable.
-- No index mentions heartbeat_at and the pages have room: a beat writes one heap tuple.
create table taskq.session (
    session_id bigint generated always as identity,
    key uuid not null,
    campaign_id bigint not null,
    opened_at timestamptz not null,
    heartbeat_at timestamptz not null,
    lease_s double precision not null,
    ended_at timestamptz,
    expired boolean not null default false,
    slots integer not null,
    pid integer not null,
    agent text not null,
    host text not null,
    site text not null,
    release text not null,
    constraint session_pkey primary key (session_id),
    constraint session_key_key unique (key),
    constraint session_lease_range check (lease_s between 1 and 86400),
    constraint session_expired_is_ended check (not expired or ended_at is not null)
)
with (fillfactor = 50);

create index session_open on taskq.session (session_id) where ended_at is null;

create index session_ended on taskq.session (ended_at) where ended_at is not null;


-- How many tasks of a campaign stand where (its own, not its children's), without the moves that
-- are still in `delta`.
create table taskq.counter (
    campaign_id bigint not null,
    waiting bigint not null default 0,
    delayed bigint not null default 0,
    working bigint not null default 0,
    done bigint not null default 0,
    failed bigint not null default 0,
    cancelled bigint not null default 0,
    failures bigint not null default 0,
    losses bigint not null default 0,
    constraint counter_pkey primary key (campaign_id)
)
with (fillfactor = 50);

-- Moves not folded yet: one row per transaction and campaign.
create table taskq.delta (
    campaign_id bigint not null,
    xid xid8 not null default pg_current_xact_id(),
    waiting integer not null default 0,
    delayed integer not null default 0,
    working integer not null default 0,
    done integer not null default 0,
    failed integer not null default 0,
    cancelled integer not null default 0,
    failures integer not null default 0,
    losses integer not null default 0
)
with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000);

create index delta_xid on taskq.delta (xid);

-- One row: every delta of a transaction below this one has been folded.
create table taskq.fold (
    only_one boolean not null default true,
    below xid8 not null,
    constraint fold_pkey primary key (only_one),
    constraint fold_only_one check (only_one)
);

-- One row: the keeper that acts, and until when unless it renews.
create table taskq.keeper (
    only_one boolean not null default true,
    holder uuid,
    until timestamptz not null,
    constraint keeper_pkey primary key (only_one),
    constraint keeper_only_one check (only_one)
);

insert into taskq.fold (below) values ('0');
insert into taskq.keeper (until) values ('-infinity');

insert into taskq.campaign (path, lineage) values ('/', '{}');
update taskq.campaign set lineage = array[campaign_id] where path = '/';
insert into taskq.counter (campaign_id) select campaign_id from taskq.campaign;
