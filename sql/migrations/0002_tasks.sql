-- Tasks, and their counts by status.
--
-- Ordinary tasks are kept packed. Tasks that no agent has touched are spans of ids; the tasks of one claim are a
-- bundle; a done task is only its attempt. A task has a row in `task` once something else has happened to it, or
-- while an agent that claimed it alone works on it.
--
--     waiting     in a span, or a row
--     working     in a bundle, or a row
--     cancelled   in a span if it was cancelled there with all others of the span, or a row
--     done        an attempt that is done, and neither a row nor any of the above
--     others      a row
--
-- So the life of most tasks writes a spec, its share of a bundle, and an attempt. Claims and reports know spans and
-- bundles. So do the verbs that move all tasks of a campaign: they change whole spans (move_spans.sql).
-- All other verbs know rows only, and first unpack the tasks that they are about, see unpack.sql and
-- unspan.sql.

create type taskq.task_status as enum ('waiting', 'delayed', 'working', 'done', 'failed', 'cancelled');

create type taskq.attempt_outcome as enum (
    'done', 'failed', 'lost', 'released', 'cancelled', 'hedged', 'withdrawn');


-- No plan of a function depends on statistics (see tasks.sql); queries of people and reports do. By
-- default a table is analysed when a tenth of it has changed: next to five million older tasks one campaign of
-- half a million would stay unknown for good. ANALYZE reads 30,000 rows at most, whatever the table's size.
--
-- Its rows, and those of `attempt`, are written once. So autovacuum freezes them when it first comes, after each
-- twentieth of the table. By default it waits for 50 million transactions: 5,000 exchanges a second reach
-- autovacuum_freeze_max_age in half a day, and then all that was ever written would be read and frozen at once.
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
)
with (
    autovacuum_freeze_min_age = 0,
    autovacuum_vacuum_insert_scale_factor = 0.05,
    autovacuum_analyze_scale_factor = 0.01,
    autovacuum_analyze_threshold = 10000
);

comment on table taskq.spec is 'What a task is; written once.';
comment on column taskq.spec.task_id is 'Follows the order of seeding.';


-- It has no check constraints: each would be parsed and compiled again for every statement that writes the table.
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
    avoids integer[],
    constraint task_pkey primary key (campaign_id, task_id)
)
with (
    autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_vacuum_threshold = 50000,
    autovacuum_analyze_scale_factor = 0.02,
    autovacuum_analyze_threshold = 20000
);

-- Claims walk this in order: highest priority first, then first seeded first. All columns ascend, so that one
-- row comparison says "after this position".
create index task_waiting on taskq.task (campaign_id, (-priority), task_id)
    where status = 'waiting' and avoids is null;
-- Tasks that have failed before wait apart, so that an agent that may not have them need not walk over them to
-- those that nobody has tried.
create index task_waiting_again on taskq.task (campaign_id, (-priority), task_id)
    where status = 'waiting' and avoids is not null;
-- The attempts that a session holds. Lease ids lead with a time stamp, so entries arrive in order.
create index task_working on taskq.task (session_id, lease_id) where status = 'working';
create index task_delayed on taskq.task (due_at) where status = 'delayed';
create index task_failed on taskq.task (campaign_id, task_id) where status = 'failed';

comment on table taskq.task is 'The state of each task that is not packed.';
comment on column taskq.task.lease_id is
    'Of the current attempt while working, else of the last one, as are session_id, claimed_at and attempt.';
comment on column taskq.task.attempt is 'Counts from 1; 0 before the first claim.';
comment on column taskq.task.due_at is
    'When a delayed task waits again; once it waits, since when it avoids hosts.';
comment on column taskq.task.failures is 'Attempts that failed since an operator last retried it.';
comment on column taskq.task.losses is 'Attempts whose agents were lost since an operator last retried it.';
comment on column taskq.task.avoids is
    'Hashes of the names of the hosts that it avoids, the latest last; see avoiding.sql.';


create table taskq.span (
    campaign_id bigint not null,
    first_id bigint not null,
    next_id bigint not null,
    last_id bigint not null,
    priority smallint not null,
    status taskq.task_status not null default 'waiting',
    constraint span_pkey primary key (campaign_id, first_id)
)
with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_threshold = 5000);

-- Claims walk this in order, as they do task_waiting.
create index span_waiting on taskq.span (campaign_id, (-priority), first_id) where status = 'waiting';

comment on table taskq.span is
    'Tasks of one campaign and priority that were seeded together, and that all wait or are all cancelled: the '
    'specs from next_id to last_id. Spans of one campaign do not overlap.';
comment on column taskq.span.first_id is 'Never changes, so that taking tasks leaves the indexes alone.';
comment on column taskq.span.next_id is
    'The first task that is left. Above last_id if none is; then the next claim removes the span.';


create table taskq.bundle (
    session_id bigint not null,
    lease_id uuid not null,
    first_id bigint not null,
    campaign_id bigint not null,
    claimed_at timestamptz not null,
    tasks bigint[] not null,
    constraint bundle_pkey primary key (session_id, lease_id, first_id)
)
with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_threshold = 5000);

create index bundle_task on taskq.bundle (campaign_id, first_id);

comment on table taskq.bundle is
    'What an agent still holds of one claim: first attempts of tasks that came from one span. Bundles of one '
    'campaign do not overlap.';
comment on column taskq.bundle.first_id is
    'The first task that was claimed; never changes, so that the indexes stay as they are.';
comment on column taskq.bundle.tasks is 'Their ids, ascending.';


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
    refused boolean,
    recipe integer,
    constraint attempt_pkey primary key (campaign_id, task_id, attempt)
)
with (
    autovacuum_freeze_min_age = 0,
    autovacuum_vacuum_insert_scale_factor = 0.05,
    autovacuum_analyze_scale_factor = 0.01,
    autovacuum_analyze_threshold = 10000
);

create index attempt_unsuccessful on taskq.attempt (campaign_id, error_class, task_id)
    where outcome <> 'done';

comment on table taskq.attempt is
    'How an attempt ended. It changes in two cases: a late success takes the place of a loss, see '
    'salvage.sql; a success is withdrawn, see withdraw.sql.';
comment on column taskq.attempt.outcome is
    'hedged: its lease was ended in favour of a second attempt; it went on, and its success counts if it is first. '
    'withdrawn: it was done, and an operator has withdrawn its result.';
comment on column taskq.attempt.phases is 'Seconds by phase, as the agent measured them; see share_s.sql.';
comment on column taskq.attempt.tail is 'The end of what the payload wrote.';
comment on column taskq.attempt.refused is 'True: the agent handed it back, since its node cannot run such tasks.';
comment on column taskq.attempt.recipe is 'What its agent reports to have run; null: the first, see ran_recipe.sql.';


create table taskq.withdrawal (
    campaign_id bigint not null,
    task_id bigint not null,
    attempt integer not null,
    withdrawn_at timestamptz not null,
    constraint withdrawal_pkey primary key (campaign_id, task_id, attempt)
);

comment on table taskq.withdrawal is
    'Which results were withdrawn, so that readers who have them learn it; see withdraw.sql.';
comment on column taskq.withdrawal.withdrawn_at is 'For people, no statement reads it.';


create view taskq.state_beyond_spans as
    select t.campaign_id, t.task_id, t.status, t.lease_id, t.session_id, t.claimed_at, t.due_at,
           t.attempt, t.failures, t.losses, t.avoids
      from taskq.task t
     union all
    select b.campaign_id, k.task_id, 'working', b.lease_id, b.session_id, b.claimed_at, null, 1, 0, 0, null
      from taskq.bundle b
     cross join lateral unnest(b.tasks) as k (task_id)
     union all
    select a.campaign_id, a.task_id, 'done', a.lease_id, a.session_id, a.claimed_at, null, l.attempt,
           l.failures, l.losses, null
      from taskq.attempt a
     cross join lateral (
           select max(l.attempt) as attempt,
                  min(l.attempt) filter (where l.outcome = 'done') as first_done,
                  count(*) filter (where l.outcome = 'failed') as failures,
                  count(*) filter (where l.outcome = 'lost'
                                      or l.outcome in ('done', 'withdrawn')
                                     and l.error_class not in ('hedged', 'not-begun')) as losses
             from taskq.attempt l
            where l.campaign_id = a.campaign_id
              and l.task_id = a.task_id) l
     where a.outcome = 'done'
       and a.attempt = l.first_done
       and (select t.task_id  -- by key, whatever is known of the campaign, see tasks()
              from taskq.task t
             where t.campaign_id = a.campaign_id
               and t.task_id >= a.task_id
               and t.task_id <= a.task_id
             order by t.campaign_id, t.task_id
             limit 1) is null;

comment on view taskq.state_beyond_spans is
    'The state of each task that is not in a span, see state; a part of it and of states().';

create view taskq.state as
    select b.campaign_id, b.task_id, b.status, b.lease_id, b.session_id, b.claimed_at, b.due_at,
           b.attempt, b.failures, b.losses, b.avoids
      from taskq.state_beyond_spans b
     union all
    select n.campaign_id, s.task_id, n.status, null, null, null, null, 0, 0, 0, null
      from taskq.span n
      join taskq.spec s
        on s.campaign_id = n.campaign_id
       and s.task_id between n.next_id and n.last_id;

comment on view taskq.state is
    'The state of each task, wherever it is kept: for people and the audit, never for a statement that must be fast '
    'or lock. A task that appears twice is damaged, and so is a spec that does not appear.';


-- What attempts report while they run. Nothing depends on it, so it is not logged: a crash or a failover empties both
-- tables, a standby has none of it, and agents report it again with their next heartbeats.

create unlogged table taskq.progress (
    campaign_id bigint not null,
    task_id bigint not null,
    lease_id uuid not null,
    fraction double precision,
    note text not null,
    until timestamptz not null,
    constraint progress_pkey primary key (campaign_id, task_id, lease_id)
)
with (fillfactor = 50);

comment on table taskq.progress is
    'How far attempts are, if they report it. A row under another lease than the task''s belongs to an attempt that '
    'has ended, and does not count.';
comment on column taskq.progress.until is
    'When the row goes unless the attempt reports again; see forget_progress.sql.';

create unlogged table taskq.followed (
    campaign_id bigint not null,
    task_id bigint not null,
    asker text not null,
    asked_at timestamptz not null,
    session_id bigint,
    lease_id uuid,
    written bigint,
    output bytea,
    constraint followed_pkey primary key (campaign_id, task_id, asker)
)
with (fillfactor = 50);

comment on table taskq.followed is
    'Who follows the output of a task; a row for each asker, so that none can keep another waiting.';
comment on column taskq.followed.asker is 'A login, or a token.';
comment on column taskq.followed.asked_at is 'When it last asked; half a minute later it no longer follows.';
comment on column taskq.followed.lease_id is 'Of the attempt that ran then, as is session_id; null: none ran.';
comment on column taskq.followed.written is
    'How many bytes the attempt has written; null: its agent has sent none yet.';
comment on column taskq.followed.output is 'The last of these bytes.';


-- Counts. A function that moves tasks only appends, so that claims of one campaign never wait for each other's
-- commit on a counter.

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
    first_failures bigint not null default 0,
    children bigint not null default 0,
    unfinished boolean not null generated always as (waiting <> 0 or delayed <> 0 or working <> 0) stored,
    has_failed boolean not null generated always as (failed <> 0) stored,
    constraint counter_pkey primary key (campaign_id)
)
with (fillfactor = 50);

-- Of very many campaigns most have ended; those that have not are found here. A condition on the counts themselves
-- would make each fold write the index again.
create index counter_unfinished on taskq.counter (campaign_id) where unfinished;
create index counter_failed on taskq.counter (campaign_id) where has_failed;

comment on table taskq.counter is
    'Tasks of a campaign by status (its own, not its children''s), without the moves that are still in `delta`.';
comment on column taskq.counter.unfinished is
    'Whether the counter alone has tasks that wait, are delayed or are worked on; `delta` may have more.';
comment on column taskq.counter.has_failed is 'The same of failed tasks.';
comment on column taskq.counter.failures is 'Attempts that failed.';
comment on column taskq.counter.losses is 'Attempts whose agents were lost.';
comment on column taskq.counter.first_failures is 'Of the failures, those of first attempts.';
comment on column taskq.counter.children is 'Campaigns directly below it.';

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
    losses integer not null default 0,
    since timestamptz,
    first_failures integer not null default 0,
    children integer
)
with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000);

create index delta_xid on taskq.delta (xid);

-- It has no key, and in a publication of all tables PostgreSQL refuses to delete rows that it cannot name.
-- Without a publication this costs nothing.
alter table taskq.delta replica identity full;

comment on table taskq.delta is 'Moves of tasks that are not folded yet: one row per transaction and campaign.';
comment on column taskq.delta.children is 'Campaigns that were made directly below it, or removed; null: none.';
comment on column taskq.delta.since is 'In a sum of deltas: when the first of them was added; see fold.sql.';

create table taskq.fold (
    only_one boolean not null default true,
    below xid8 not null,
    constraint fold_pkey primary key (only_one),
    constraint fold_only_one check (only_one)
);

comment on table taskq.fold is
    'One row: where readers of `delta` begin, so that they do not walk over dead rows under a held snapshot.';
comment on column taskq.fold.below is 'All deltas of transactions below this one have been folded.';

insert into taskq.fold (below) values ('0');

-- The counter of the root.
insert into taskq.counter (campaign_id) select campaign_id from taskq.campaign;
