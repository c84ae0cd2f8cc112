-- Files and results: inputs, large arguments and results, checkpoints and output files as blobs, and indexes of results;
-- archives of ended campaigns, and what is known of those that were removed.

create table taskq.blob (
    blob_id bigint generated always as identity,
    digest bytea not null,
    size bigint not null,
    complete boolean not null default false,
    put_at timestamptz not null default clock_timestamp(),
    constraint blob_pkey primary key (blob_id),
    constraint blob_digest_length check (length(digest) = 32),
    constraint blob_size_range check (size between 0 and 1073741824)
);

create unique index blob_digest on taskq.blob (digest) where complete;

comment on table taskq.blob is
    'Content of inputs, large arguments and results, checkpoints and output files, if the queue keeps these in the '
    'database. Two uploads of one content each write a row and parts of their own, so that neither can spoil the '
    'other''s; the first to end counts.';
comment on column taskq.blob.digest is 'SHA-256 of the content.';
comment on column taskq.blob.complete is 'All parts are there, and it can be read.';
comment on column taskq.blob.put_at is
    'When somebody last wanted it stored: recent blobs are not removed, though nothing may refer to them yet.';

create table taskq.blob_part (
    blob_id bigint not null,
    part integer not null,
    data bytea not null,
    constraint blob_part_pkey primary key (blob_id, part),
    constraint blob_part_length check (length(data) between 1 and 1048576)
);

-- Uncompressed, so that a range is read without the rest; most content is compressed already. Servers before 16
-- do not take this in `create table`.
alter table taskq.blob_part alter column data set storage external;

comment on table taskq.blob_part is 'Parts of blobs, of 1 MiB each; the last may be shorter.';


create table taskq.argument (
    campaign_id bigint not null,
    digest text not null,
    size bigint not null,
    constraint argument_pkey primary key (campaign_id, digest),
    constraint argument_digest_form check (digest ~ '^[0-9a-f]{64}$')
);

-- Finds whether a blob is an argument: then it may be read, and stays.
create index argument_digest on taskq.argument (digest);

comment on table taskq.argument is
    'Large arguments of calls, which are blobs that payloads name. They stay as long as their campaign.';


create table taskq.checkpoint (
    campaign_id bigint not null,
    task_id bigint not null,
    lease_id uuid not null,
    attempt integer not null,
    digest text not null,
    size bigint not null,
    constraint checkpoint_pkey primary key (campaign_id, task_id),
    constraint checkpoint_digest_form check (digest ~ '^[0-9a-f]{64}$')
)
with (fillfactor = 70);

-- Finds whether a blob is a checkpoint, which may be read.
create index checkpoint_digest on taskq.checkpoint (digest);

comment on table taskq.checkpoint is
    'The last checkpoint of each task that has one, until the task is final: an archive, which is a blob.';
comment on column taskq.checkpoint.lease_id is
    'Of the attempt that made this content, as is `attempt`. An attempt that saves the checkpoint that it got has '
    'made no progress, and changes nothing here.';


create table taskq.output (
    campaign_id bigint not null,
    task_id bigint not null,
    lease_id uuid not null,
    token_id bigint not null,
    digest text not null,
    size bigint not null,
    decided boolean not null default false,
    constraint output_pkey primary key (campaign_id, task_id, lease_id),
    constraint output_digest_form check (digest ~ '^[0-9a-f]{64}$')
)
with (fillfactor = 80);

-- Finds whether a blob is output files, which stay.
create index output_digest on taskq.output (digest);
create index output_undecided on taskq.output (campaign_id, task_id, lease_id) where not decided;

comment on table taskq.output is
    'Archives of output files, which are blobs. An attempt saves its own before its report, so a row counts only if '
    'the attempt under its lease was accepted.';
comment on column taskq.output.token_id is 'Of the session that saved it; 0: a direct agent.';
comment on column taskq.output.decided is
    'It counts for good. Rows that will never count are removed, see end_outputs.sql.';

create table taskq.output_use (
    campaign_id bigint not null,
    token_id bigint not null,
    part smallint not null,
    bytes bigint not null,
    constraint output_use_pkey primary key (campaign_id, token_id, part)
)
with (fillfactor = 50);

create index output_use_token on taskq.output_use (token_id);

comment on table taskq.output_use is
    'Bytes of output files that are stored, by campaign and token, and of large arguments.';
comment on column taskq.output_use.token_id is 'Of the sessions that saved them; 0: direct agents; -1: arguments.';
comment on column taskq.output_use.part is
    'One of sixteen, by task: a save locks its row until it commits, and saves in other parts go on.';


-- Indexes of results: a campaign's results in the order of one of their numbers. The keeper takes in new results, so
-- reports know nothing of indexes; a ranking uses an index that has all results, see best_results.sql.

create table taskq.result_index (
    index_id bigint generated always as identity,
    campaign_id bigint not null,
    part text not null,
    name text not null,
    looked bigint not null default 0,
    seen bigint not null default 0,
    ranked bigint not null default 0,
    large bigint not null default 0,
    dropped boolean not null default false,
    created_at timestamptz not null default clock_timestamp(),
    constraint result_index_pkey primary key (index_id),
    constraint result_index_part_known check (part in ('result', 'payload', 'phases')),
    constraint result_index_name_length check (length(name) between 1 and 255)
)
with (fillfactor = 50);

create unique index result_index_field on taskq.result_index (campaign_id, part, name) where not dropped;

comment on table taskq.result_index is
    'Indexes of results: which number of which campaign, and how far each is filled.';
comment on column taskq.result_index.part is 'Where the number is; name: its field. See best_results.sql.';
comment on column taskq.result_index.looked is 'Where the next step continues; 0: at the first task.';
comment on column taskq.result_index.seen is 'Results that were taken in.';
comment on column taskq.result_index.ranked is 'Of those seen, the ones with a number.';
comment on column taskq.result_index.large is
    'Of those seen, references to blobs, whose number the database does not know.';
comment on column taskq.result_index.dropped is 'The keeper removes it, some rows at a time.';

create table taskq.result_rank (
    index_id bigint not null,
    rank numeric not null,
    task_id bigint not null,
    constraint result_rank_pkey primary key (index_id, rank, task_id)
);

comment on table taskq.result_rank is 'The numbers of an index, in order.';

create table taskq.result_span (
    index_id bigint not null,
    first_id bigint not null,
    last_id bigint not null,
    constraint result_span_pkey primary key (index_id, first_id)
)
with (autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_threshold = 5000);

comment on table taskq.result_span is
    'Tasks whose results an index has taken in, as ranges of ids; neighbouring ranges are merged.';


-- The disks that all this fills.

create table taskq.disk (
    place text collate "C" not null,
    free bigint not null,
    size bigint not null,
    kept bigint not null,
    is_full boolean not null default false,
    falls_per_s double precision not null default 0,
    since timestamptz not null,
    measured_at timestamptz not null,
    constraint disk_pkey primary key (place),
    constraint disk_place_length check (length(place) between 1 and 500)
);

comment on table taskq.disk is
    'Disks that the queue needs, such as that of the database, as keepers measure them, a row for each; see note_disk.sql.';
comment on column taskq.disk.place is 'Host and folder; or that the size is a declared one.';
comment on column taskq.disk.free is 'In bytes, as size and kept.';
comment on column taskq.disk.kept is
    'So much is kept for reports, claims and removing: where less is free, seeds and large results are refused.';
comment on column taskq.disk.is_full is 'Whether they are refused. They are taken again when a quarter more is free.';
comment on column taskq.disk.falls_per_s is
    'By how many bytes a second less is free, a mean of the last hour or so, not yet corrected for its beginning (since).';


-- Archives of ended campaigns. A campaign that is archived, or is being restored, has the status `archived`, which
-- refuses whatever would change it or those below it.

create table taskq.archive (
    campaign_id bigint not null,
    number uuid not null,
    status_before taskq.campaign_status not null,
    begun_at timestamptz not null,
    login text not null,
    restoring jsonb,
    restored bigint not null default 0,
    place text,
    digest text,
    constraint archive_pkey primary key (campaign_id),
    constraint archive_restoring_object check (jsonb_typeof(restoring) = 'object'),
    constraint archive_place_length check (length(place) between 1 and 4096),
    constraint archive_digest_form check (digest ~ '^[0-9a-f]{64}$')
);

comment on table taskq.archive is 'Campaigns that are archived with all below them, or are being restored.';
comment on column taskq.archive.number is 'Drawn when it began; an archive without it has another state of the campaign.';
comment on column taskq.archive.status_before is 'What the campaign gets at the end of a restore.';
comment on column taskq.archive.login is 'Who began it, at begun_at; for people, no statement reads these.';
comment on column taskq.archive.restoring is
    'Of a restore: the digest of its manifest, what is added to the ids of tasks and sessions, and the ids of the '
    'campaigns here by those of the archive; null: it is archived.';
comment on column taskq.archive.restored is 'Rows of the archive that are in the tables, in the order of its manifest.';
comment on column taskq.archive.place is
    'Where the archive was verified: a folder, or s3://...; digest: of its manifest. Null: it was not yet.';

create table taskq.archive_key (
    only_one boolean not null default true,
    secret bytea not null,
    constraint archive_key_pkey primary key (only_one),
    constraint archive_key_only_one check (only_one),
    constraint archive_key_length check (length(secret) = 32)
);

comment on table taskq.archive_key is 'One row: by its secret this database knows its own archives again.';

insert into taskq.archive_key (secret)
values (sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())));


-- What is known of campaigns that were removed: a row for each tree of campaigns that was removed as a whole. So what
-- names such a campaign can say what became of it; what it used is in `usage`.

create table taskq.stone (
    path text collate "C" not null,
    begun_at timestamptz not null,
    removed_at timestamptz,
    campaign_id bigint not null,
    removed_by text not null,
    owner text collate "C",
    created_at timestamptz not null,
    campaigns integer not null default 0,
    done bigint not null default 0,
    failed bigint not null default 0,
    cancelled bigint not null default 0,
    archive text,
    digest text,
    by_retention boolean not null default false,
    constraint stone_pkey primary key (path, begun_at)
)
with (fillfactor = 70);

create unique index stone_unfinished on taskq.stone (campaign_id) where removed_at is null;
create index stone_age on taskq.stone (removed_at);

comment on table taskq.stone is
    'Campaigns that were removed with all below them, or are being removed. Of a path the latest ten stay, in all '
    '200,000; see remove_campaign.sql.';
comment on column taskq.stone.removed_at is 'Null: it is being removed; opening the campaign ends that.';
comment on column taskq.stone.removed_by is 'A login, a token, or retention: the keeper removes it, see retain.sql.';
comment on column taskq.stone.campaigns is 'How many were removed, with itself; done and the others: their tasks.';
comment on column taskq.stone.archive is 'Where its archive was verified, with the digest of the manifest; null: nowhere.';

create table taskq.removed_sum (
    campaign_id bigint not null,
    done bigint not null default 0,
    failed bigint not null default 0,
    failures bigint not null default 0,
    constraint removed_sum_pkey primary key (campaign_id)
)
with (fillfactor = 50);

comment on table taskq.removed_sum is
    'Tasks of a campaign that were removed, and those of campaigns directly below that are gone; less what was restored '
    'there. Trends add them to the counts: removing is no progress, and restoring neither.';
comment on column taskq.removed_sum.failures is 'Attempts that failed or were lost.';

create table taskq.retention (
    campaign_id bigint not null,
    ended_at timestamptz,
    seen text not null default '',
    keep_s double precision,
    archive_first boolean not null default false,
    due_at timestamptz,
    reopened_at timestamptz,
    archiving_until timestamptz,
    trouble text,
    constraint retention_pkey primary key (campaign_id)
)
with (fillfactor = 50);

create index retention_due on taskq.retention (due_at) where due_at is not null;

comment on table taskq.retention is
    'Campaigns that the keeper will remove with all below them, as it last looked; and those that were opened lately.';
comment on column taskq.retention.ended_at is 'When all tasks had ended, as far as is known; null: they have not.';
comment on column taskq.retention.seen is 'Counts by which it is seen that the campaign has worked since.';
comment on column taskq.retention.keep_s is 'How long after its end it stays: the longest that applies.';
comment on column taskq.retention.due_at is 'When it is removed, announced a day before at least; null: not yet known.';
comment on column taskq.retention.reopened_at is 'When somebody last resumed or restored it.';
comment on column taskq.retention.archiving_until is 'Until when a keeper archives it.';
comment on column taskq.retention.trouble is 'Why the last try to remove it failed.';
