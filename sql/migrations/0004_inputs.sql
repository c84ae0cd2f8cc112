-- Inputs: files that the tasks of a campaign share; and blobs, the content of inputs and of large
-- results, for queues that keep these in the database.
--
-- inputs: {"name": {"digest": SHA-256 in hex, "size": bytes}}, the campaign's own, not inherited.
-- on_disconnect: what an agent does with running tasks when its session must have expired unheard.

alter table taskq.campaign
    add column inputs jsonb not null default '{}',
    add column on_disconnect text not null default 'continue',
    add constraint campaign_inputs_object check (jsonb_typeof(inputs) = 'object'),
    add constraint campaign_on_disconnect_known check (on_disconnect in ('continue', 'stop'));


-- complete: all parts are there and it can be read. Two that upload the same each write a row and
-- parts of their own, so that neither can spoil the other's; whoever is first to end it counts.
-- put_at: when somebody last wanted it stored: what is recent is not removed, though nothing may
-- refer to it yet.
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

-- Parts of 1 MiB, the last may be shorter. Stored uncompressed, so that a range is read without the
-- rest; most inputs are compressed already.
create table taskq.blob_part (
    blob_id bigint not null,
    part integer not null,
    data bytea not null,
    constraint blob_part_pkey primary key (blob_id, part),
    constraint blob_part_length check (length(data) between 1 and 1048576)
);

alter table taskq.blob_part alter column data set storage external;
