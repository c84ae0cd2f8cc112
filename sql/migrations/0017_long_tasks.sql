-- Tasks that last longer than the allocations of those who run them.
--
-- max_out_of_time: so many attempts in a row may be handed back without progress, since their agents had no
-- time left; the last of them fails the task as too-long. See functions/too_long.sql.
-- checkpoint_bytes: how large the archive of a task's checkpoint may be; null: none are kept.
-- checkpoint_every_s: how often one is uploaded while its attempt runs.

alter table taskq.campaign
    add column max_out_of_time integer not null default 5,
    add column checkpoint_bytes integer,
    add column checkpoint_every_s double precision not null default 600,
    add constraint campaign_max_out_of_time_range check (max_out_of_time between 1 and 1000),
    add constraint campaign_checkpoint_bytes_range check (checkpoint_bytes between 16384 and 67108864),
    add constraint campaign_checkpoint_every_range check (checkpoint_every_s between 1 and 31536000);


-- The last checkpoint of each task that has one, until the task is final: an archive, which is a blob.
-- lease_id, attempt: of the attempt that has made this content. Who has the checkpoint of another attempt
-- and saves it as it was has made no progress, and changes nothing here.
create table taskq.checkpoint (
    campaign_id bigint not null,
    task_id bigint not null,
    lease_id uuid not null,
    attempt integer not null,
    digest text not null,
    size bigint not null,
    saved_at timestamptz not null,
    constraint checkpoint_pkey primary key (campaign_id, task_id),
    constraint checkpoint_digest_form check (digest ~ '^[0-9a-f]{64}$')
)
with (fillfactor = 70);

-- Whether a blob is one, and may be read.
create index checkpoint_digest on taskq.checkpoint (digest);
