-- Output files: what a task leaves in a folder is stored with its result.
--
-- output_bytes: how large the archive of a task's output files may be; null: none are kept.
-- output_total_bytes: how many bytes the campaign keeps of them in all.
-- max_output_bytes: how many bytes the agents of a token may have stored, in all campaigns.

alter table taskq.campaign
    add column output_bytes integer,
    add column output_total_bytes bigint not null default 10737418240,
    add constraint campaign_output_bytes_range check (output_bytes between 16384 and 67108864),
    add constraint campaign_output_total_range check (output_total_bytes between 16384 and 1125899906842624);

alter table taskq.token
    add column max_output_bytes bigint not null default 107374182400,
    add constraint token_max_output_range check (max_output_bytes between 0 and 1125899906842624);


-- Archives of output files, which are blobs. An attempt saves its own before its report, so a row counts
-- only if the attempt under its lease was accepted.
-- token_id: of the session that has saved it; 0: a direct agent. decided: whether it counts for good; what
-- does not is removed, see functions/end_outputs.sql.
create table taskq.output (
    campaign_id bigint not null,
    task_id bigint not null,
    lease_id uuid not null,
    token_id bigint not null,
    digest text not null,
    size bigint not null,
    saved_at timestamptz not null,
    decided boolean not null default false,
    constraint output_pkey primary key (campaign_id, task_id, lease_id),
    constraint output_digest_form check (digest ~ '^[0-9a-f]{64}$')
)
with (fillfactor = 80);

-- Whether a blob is one, and may not go.
create index output_digest on taskq.output (digest);

create index output_undecided on taskq.output (campaign_id, task_id, lease_id) where not decided;


-- Bytes stored, by campaign and token. part: of sixteen, by task, since who saves has its row until it
-- commits.
create table taskq.output_use (
    campaign_id bigint not null,
    token_id bigint not null,
    part smallint not null,
    bytes bigint not null,
    constraint output_use_pkey primary key (campaign_id, token_id, part)
)
with (fillfactor = 50);

create index output_use_token on taskq.output_use (token_id);
