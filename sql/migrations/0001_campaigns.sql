-- The tables of taskq, by subject: campaigns (this file), tasks, agents, files and results, upkeep.
--
-- A campaign is a node of a tree and holds tasks. What a task *is* (key and payload) is one row of `spec`,
-- written once and never touched again. A task's *state* is kept apart from that, so that payloads and the index over
-- keys, which has no locality, stay out of the way of claims. An ended attempt is one row of `attempt`: result store,
-- statistics and audit log in one.
--
--     campaign 1 --- n task 1 --- 1 spec
--                       task 1 --- n attempt n --- 1 session
--
-- Ordinary tasks are kept packed; 0002_tasks.sql says how.
--
-- Rules that all functions keep:
--
--   * The pair (task, lease_id) is the fence. The caller of a claim draws the lease id; the server never makes
--     one up. Every message about an attempt names both, and changes nothing if the task has another lease.
--   * A function that moves tasks appends one row to `delta` in the same transaction. Counts are
--     counter + sum(delta), in one snapshot; see fold.sql.
--   * Rows of several tasks are locked in the order of task_id, so nobody waits in a circle.
--   * Only the database's clock decides about time: clock_timestamp(), never the transaction's start.
--   * The key of everything hot begins with the campaign, and a hot statement names one campaign, so that the
--     tables can be partitioned or distributed by it. Hot rows have no foreign keys: each would take a lock on
--     the row that it points to.
--   * A heartbeat writes one heap tuple: pages of `session` have room, and no index mentions what it changes.
--
-- Conventions: _at is an instant, _s seconds. Null means "none" or "no limit"; where it means something else,
-- the column's comment says so. A table of one row has the key `only_one`; one that is written all the time is
-- read by it, since a snapshot that is held for long leaves it large. Text that is compared as a path, an owner or a
-- name has the collation "C", in which a subtree of campaigns is one range of an index. Tables whose
-- rows are rewritten often have a low fillfactor, so that a new version fits on the page of the old one. The
-- thresholds of autovacuum count rows: a fifth of ten million rows, as by default, would come too late.

create schema taskq;


-- What is installed.

create table taskq.installation (
    only_one boolean not null default true,
    migrations text[] not null,
    functions text not null,
    constraint installation_pkey primary key (only_one),
    constraint installation_only_one check (only_one)
);

comment on table taskq.installation is 'One row: the schema that is installed.';
comment on column taskq.installation.migrations is
    'SHA-256 of each file of sql/migrations that was applied, in order; their number is the schema''s version.';
comment on column taskq.installation.functions is
    'Digest of the installed functions and rights; a release with another digest installs its own.';

create table taskq.login_role (
    login regrole not null,
    role text not null,
    constraint login_role_pkey primary key (login, role)
);

comment on table taskq.login_role is
    'Which logins of the server were granted which roles of sql/roles. The grants themselves are in PostgreSQL; '
    'a migration repeats them, since new functions come without any.';
comment on column taskq.login_role.login is 'After `drop role` it is a number without a login, and no longer counts.';


-- Campaigns.

create type taskq.campaign_status as enum ('open', 'paused', 'cancelled', 'archived');

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
    weight double precision not null default 1,
    tags text[] not null default '{}',
    running_limit integer,
    inputs jsonb not null default '{}',
    on_disconnect text not null default 'continue',
    front boolean not null default true,
    late_results text not null default 'reject',
    never_retry text[] not null default '{}',
    max_lost_hosts integer not null default 3,
    max_failure_share double precision default 0.9,
    paused_why text,
    max_out_of_time integer not null default 5,
    checkpoint_bytes integer,
    checkpoint_every_s double precision not null default 600,
    cores integer,
    gpus double precision,
    memory bigint[],
    requires text[] not null generated always as (
        tags
        || case when cores is null then '{}'::text[] else array['cores>=' || cores::text] end
        || case when memory is null or memory_learns then '{}'::text[]
                else array['mem>=' || trim_scale(round(memory[1] / 1073741824.0, 3))::text] end
        || case when gpus is null then '{}'::text[] else array['gpus>=' || gpus::text] end
        || case when gpu_memory is null then '{}'::text[]
                else array['gpumem>=' || trim_scale(round(gpu_memory / 1073741824.0, 3))::text] end
        || named_resources
        || case when require <> '{}' or require_files <> '{}' or gpus < 1 then array['protocol>=2']
                when checkpoint_bytes is null and output_bytes is null then '{}'::text[]
                else array['protocol>=1'] end
    ) stored,
    output_bytes integer,
    output_total_bytes bigint not null default 10737418240,
    owner text collate "C",
    running_quota integer,
    hedge double precision,
    hedged bigint not null default 0,
    max_running_per_site integer,
    payload_bytes integer not null default 0,
    seeded_at timestamptz not null default '-infinity',
    best text,
    limited_at timestamptz,
    named_limits text[] collate "C" not null default '{}',
    require text[] not null default '{}',
    require_files text[] not null default '{}',
    memory_learns boolean not null default false,
    gpu_memory bigint,
    named_resources text[] not null default '{}',
    recipe integer,
    keep_inputs boolean not null default false,
    keep double precision,
    archive_first boolean not null default false,
    has_below boolean not null default false,
    max_running integer generated always as (
        least(running_limit, running_quota,
              case when max_running_per_site is not null then 1000000000 end,
              case when named_limits <> '{}' then 1000000000 end)) stored,
    constraint campaign_pkey primary key (campaign_id),
    constraint campaign_path_key unique (path),
    constraint campaign_parent_fkey foreign key (parent_id) references taskq.campaign,
    constraint campaign_handler_object check (jsonb_typeof(handler) = 'object'),
    constraint campaign_params_object check (jsonb_typeof(params) = 'object'),
    constraint campaign_inputs_object check (jsonb_typeof(inputs) = 'object'),
    constraint campaign_max_attempts_range check (max_attempts between 1 and 1000),
    constraint campaign_max_losses_range check (max_losses between 1 and 1000),
    constraint campaign_max_lost_hosts_range check (max_lost_hosts between 1 and 1000),
    constraint campaign_max_out_of_time_range check (max_out_of_time between 1 and 1000),
    constraint campaign_max_failure_share_range check (max_failure_share > 0 and max_failure_share < 1),
    constraint campaign_never_retry_range check (cardinality(never_retry) <= 100),
    constraint campaign_backoff_range
        check (backoff_s between 0 and backoff_max_s and backoff_max_s <= 31536000),
    constraint campaign_time_limit_range check (time_limit_s > 0 and time_limit_s <= 31536000),
    constraint campaign_weight_range check (weight > 0 and weight <= 1000),
    constraint campaign_max_running_range check (running_limit between 1 and 1000000),
    constraint campaign_max_running_per_site_range check (max_running_per_site between 1 and 20000),
    constraint campaign_running_quota_range check (running_quota between 0 and 1000000),
    constraint campaign_owner_length check (length(owner) between 1 and 100),
    constraint campaign_on_disconnect_known check (on_disconnect in ('continue', 'stop')),
    constraint campaign_late_results_known check (late_results in ('reject', 'salvage')),
    constraint campaign_checkpoint_bytes_range check (checkpoint_bytes between 16384 and 67108864),
    constraint campaign_checkpoint_every_range check (checkpoint_every_s between 1 and 31536000),
    constraint campaign_output_bytes_range check (output_bytes between 16384 and 67108864),
    constraint campaign_output_total_range check (output_total_bytes between 16384 and 1125899906842624),
    constraint campaign_cores_range check (cores between 1 and 4096),
    constraint campaign_gpus_range
        check (gpus between 0.01 and 64 and (gpus < 1 or gpus = trunc(gpus))),
    constraint campaign_gpu_memory_range
        check (gpu_memory between 1 and 1125899906842624),
    constraint campaign_named_resources_range check (cardinality(named_resources) <= 8),
    constraint campaign_memory_range check (
        cardinality(memory) between 1 and 8
        and 1 <= all (memory) and 1125899906842624 >= all (memory)),
    constraint campaign_best_form check (best ~ '^(lowest|highest) (result|payload|phases)\.\S.{0,199}$'),
    constraint campaign_require_form check (
        cardinality(require) <= 32
        and cardinality(string_to_array(array_to_string(require, e'\n', ''), e'\n')) = cardinality(require)
        and array_to_string(require, e'\n', '') ~ (
            '^(\S{1,200}( (number|text|boolean|list|object))?'
            '( >= [+-]?\d{1,30}(\.\d{1,30})?([eE][+-]?\d{1,2})?)?'
            '( <= [+-]?\d{1,30}(\.\d{1,30})?([eE][+-]?\d{1,2})?)?(\n|$))*$')),
    constraint campaign_require_files_range check (
        cardinality(require_files) <= 32 and length(array_to_string(require_files, e'\n', '')) <= 8000
        and array_position(require_files, null) is null and array_position(require_files, '') is null),
    -- The first attempt of a hedged task goes on next to the second one: its success must count, and both together
    -- may exceed any limit of running tasks.
    constraint campaign_hedge_range check (hedge > 0 and hedge <= 1),
    constraint campaign_hedge_salvages check (hedge is null or late_results = 'salvage'),
    constraint campaign_hedge_unlimited check (hedge is null or running_limit is null),
    constraint campaign_hedge_unlimited_per_site check (hedge is null or max_running_per_site is null),
    constraint campaign_hedge_unlimited_by_name check (hedge is null or named_limits = '{}'),
    constraint campaign_named_limits_range check (cardinality(named_limits) <= 8),
    constraint campaign_keep_range check (keep between 3600 and 3153600000)
);

create index campaign_parent on taskq.campaign (parent_id, path);
create index campaign_limited on taskq.campaign (campaign_id) where limited_at is not null;
create index campaign_owner on taskq.campaign (owner) where owner is not null;
-- The few campaigns that keep those below them from being served, and those that are to go on. What was cancelled or
-- archived, with nothing below it, may be thousands, and is found by its tasks if some are left.
create index campaign_closed on taskq.campaign (path)
    where status = 'paused' or status <> 'open' and has_below;
create index campaign_hedge on taskq.campaign (campaign_id) where hedge is not null;
create index campaign_hedged on taskq.campaign (path) where hedged > 0;
create index campaign_learns on taskq.campaign (campaign_id) where memory_learns;
create index campaign_keep on taskq.campaign (campaign_id) where keep is not null;
create index campaign_archive_first on taskq.campaign (campaign_id) where archive_first;
create index campaign_named on taskq.campaign (campaign_id) where named_limits <> '{}';

comment on table taskq.campaign is 'The tree of campaigns, with what agents and the server must know of each.';
comment on column taskq.campaign.keep_inputs is 'Whether the content of inputs stays stored that only recipes have.';
comment on column taskq.campaign.has_below is 'Whether campaigns are directly below it, or were.';
comment on column taskq.campaign.recipe is 'Its recipe now, see the table `recipe`; null: the first.';
comment on column taskq.campaign.path is '/ for the root, else /name/name.';
comment on column taskq.campaign.lineage is
    'Ids from the root to the campaign itself, so that "is an ancestor paused" is a few look-ups by key.';
comment on column taskq.campaign.payload_bytes is
    'No payload has more bytes, as PostgreSQL writes it. It never falls, and limits the tasks of a claim; see '
    'take().';
comment on column taskq.campaign.seeded_at is
    'When the latest chunk was seeded after which more usually come, to within 5 s; -infinity: none is expected.';
comment on column taskq.campaign.revision is 'Rises with each change of what agents keep of the campaign.';
comment on column taskq.campaign.handler is 'How agents run a task; null: the campaign only groups others.';
comment on column taskq.campaign.params is 'Values that all its tasks share.';
comment on column taskq.campaign.max_attempts is 'After so many failures a task is failed for good.';
comment on column taskq.campaign.max_losses is 'After so many losses, attempts whose agent vanished, a task is failed for good.';
comment on column taskq.campaign.max_lost_hosts is
    'After losses on so many different hosts a task is failed for good, as poison.';
comment on column taskq.campaign.max_out_of_time is
    'After so many attempts in a row that ran out of their agents'' time without progress, a task is failed for '
    'good as too-long; see too_long.sql.';
comment on column taskq.campaign.never_retry is 'Classes of error after which a task is failed at once.';
comment on column taskq.campaign.backoff_s is 'How long the first retry waits; each further one waits longer.';
comment on column taskq.campaign.time_limit_s is 'How long an attempt may take.';
comment on column taskq.campaign.limited_at is
    'When time_limit_s was last changed; null: no attempt from before is at work. See '
    'enforce_time_limits.sql.';
comment on column taskq.campaign.max_failure_share is
    'The campaign pauses itself when a larger share of its recent attempts failed; null: never.';
comment on column taskq.campaign.paused_why is 'Why it paused itself; null if a person did, or it is not paused.';
comment on column taskq.campaign.late_results is
    'salvage: a success of an attempt that was given up as lost counts, as long as no other was accepted.';
comment on column taskq.campaign.on_disconnect is
    'What an agent does with running tasks when it has been cut off for so long that its session must have expired.';
comment on column taskq.campaign.weight is 'Its share of the running tasks, relative to its neighbours.';
comment on column taskq.campaign.tags is 'Tags that people require of agents.';
comment on column taskq.campaign.requires is
    'All that an agent must offer: the tags, what follows from the resources, and a protocol that knows checkpoints, '
    'output files and checks of results. Claims look at this alone.';
comment on column taskq.campaign.cores is 'Cores of a slot that a task needs; null: it asks for none of its own.';
comment on column taskq.campaign.gpus is
    'GPUs of a slot that a task needs, or its share of one, below 1; null: it asks for none of its own. Agents before '
    'protocol 2 know whole ones only.';
comment on column taskq.campaign.gpu_memory is 'Bytes that a task needs of each of its GPUs; null: any.';
comment on column taskq.campaign.named_resources is
    'What a start needs of the named resources of its node, as requirements such as `resource.licence>=1`.';
comment on column taskq.campaign.memory is
    'Bytes that an attempt may occupy: the first element at first, the next one each time that the task ran out of '
    'memory.';
comment on column taskq.campaign.memory_learns is
    'Whether `memory` follows from what attempts have used, see learn_memory.sql; null: too little is known yet.';
comment on column taskq.campaign.running_limit is 'How many of its tasks may run, by its own setting.';
comment on column taskq.campaign.running_quota is
    'How many tasks its owner may run, kept in step with `quota`; 0: the owner has used up its bytes.';
comment on column taskq.campaign.max_running is
    'The smallest of the limits; null: any number. Claims look at this alone, so a campaign without limits costs '
    'them nothing. A limit per site or a named limit alone gives it a value that nothing reaches, so that claims '
    'check such a campaign as a limited one. See room_to_run.sql, site_room.sql and limit_room.sql.';
comment on column taskq.campaign.named_limits is 'Names of the limits of the queue that count its tasks; see limit_room.sql.';
comment on column taskq.campaign.inputs is
    'Files that its tasks share, {"name": {"digest": SHA-256 in hex, "size": bytes}}; children do not inherit them.';
comment on column taskq.campaign.front is 'Whether its tasks may be leased ahead.';
comment on column taskq.campaign.checkpoint_bytes is 'Largest archive of a checkpoint; null: none are kept.';
comment on column taskq.campaign.checkpoint_every_s is 'How often a running attempt uploads its checkpoint.';
comment on column taskq.campaign.output_bytes is 'Largest archive of output files of a task; null: none are kept.';
comment on column taskq.campaign.output_total_bytes is 'How many bytes of output files it keeps in all.';
comment on column taskq.campaign.require is
    'Values that each result must have, with their kinds and bounds, such as `score number <= 0`; agents check them.';
comment on column taskq.campaign.require_files is 'Output files that each result must have.';
comment on column taskq.campaign.owner is 'The login or token that created it.';
comment on column taskq.campaign.keep is
    'How many seconds after its end the keeper removes it, or each campaign directly below if it has no tasks itself; '
    'null: see the campaign above. See look_at_retention.sql.';
comment on column taskq.campaign.archive_first is 'Whether nothing at or below it is removed so without an archive.';
comment on column taskq.campaign.hedge is 'Share of its tasks that may have a second attempt; see hedge.sql.';
comment on column taskq.campaign.hedged is 'How many tasks have had a second attempt.';


-- Owners.

create table taskq.recipe (
    campaign_id bigint not null,
    change integer not null,
    recipe integer not null,
    changed_at timestamptz not null,
    changed_by text not null,
    handler jsonb,
    params jsonb not null,
    inputs jsonb not null,
    constraint recipe_pkey primary key (campaign_id, change)
);

comment on table taskq.recipe is
    'How the results of a campaign are computed: a row for each change of handler, parameters or inputs, once results '
    'could differ; none while there is one recipe only. Rows never change.';
comment on column taskq.recipe.change is '1, 2, 3 ...';
comment on column taskq.recipe.recipe is 'Equal content has one number, that of the first time.';
comment on column taskq.recipe.changed_by is 'A login, or a token.';
comment on column taskq.recipe.handler is 'Without the key that seals arguments.';

create table taskq.quota (
    owner text collate "C" not null,
    max_running integer,
    max_waiting bigint,
    max_bytes bigint,
    weight double precision not null default 1,
    is_full boolean not null default false,
    login text not null,
    set_at timestamptz not null,
    constraint quota_pkey primary key (owner),
    constraint quota_owner_length check (length(owner) between 1 and 100),
    constraint quota_max_running_range check (max_running between 1 and 1000000),
    constraint quota_max_waiting_range check (max_waiting between 0 and 1000000000000),
    constraint quota_max_bytes_range check (max_bytes between 1 and 1125899906842624),
    constraint quota_weight_range check (weight > 0 and weight <= 1000),
    constraint quota_full_of_bytes check (max_bytes is not null or not is_full)
);

comment on table taskq.quota is 'What all campaigns of an owner together may use; null: any amount.';
comment on column taskq.quota.max_running is 'Tasks that run at a time.';
comment on column taskq.quota.max_waiting is 'Tasks that wait or are delayed.';
comment on column taskq.quota.max_bytes is 'Bytes stored; see stored_bytes.sql.';
comment on column taskq.quota.is_full is 'Whether the bytes were used up when the keeper last looked.';
comment on column taskq.quota.weight is 'Of the owner among the others, if tasks are shared between owners.';
comment on column taskq.quota.login is 'Who last changed it, at set_at; for people, no statement reads these.';

create table taskq.sharing (
    only_one boolean not null default true,
    by_owner boolean not null default false,
    constraint sharing_pkey primary key (only_one),
    constraint sharing_only_one check (only_one)
);

comment on table taskq.sharing is 'One row: how running tasks are shared out.';
comment on column taskq.sharing.by_owner is 'Between owners first, then between the campaigns of each.';

insert into taskq.sharing default values;


-- Limits that campaigns share.

create table taskq.named_limit (
    name text collate "C" not null,
    most integer not null,
    owners text[] collate "C",
    login text not null,
    set_at timestamptz not null,
    constraint named_limit_pkey primary key (name),
    constraint named_limit_name_form check (name ~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,49}$'),
    constraint named_limit_most_range check (most between 0 and 20000),
    constraint named_limit_owners_range check (cardinality(owners) between 1 and 100)
);

comment on table taskq.named_limit is
    'How many starts of the campaigns that name a limit may run at a time, wherever; see limit_room.sql.';
comment on column taskq.named_limit.owners is 'Whose campaigns may name it; null: all.';
comment on column taskq.named_limit.login is 'Who last changed it, at set_at; for people, no statement reads these.';


-- The root, under which all campaigns are.
insert into taskq.campaign (path, lineage) values ('/', '{}');
update taskq.campaign set lineage = array[campaign_id] where path = '/';
