-- Indexes of results: a campaign's results in the order of one of their numbers. The keeper takes in what
-- has come, so reports know nothing of them; who ranks uses one that has all results, see best_results().

-- part, name: see best_results(). looked: where the next step goes on, 0: from the first task. seen, ranked,
-- large: results that were taken in; those of them with a number; those that are references to blobs, whose
-- number the database does not know. dropped: the keeper removes it, some rows at a time.
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

create table taskq.result_rank (
    index_id bigint not null,
    rank numeric not null,
    task_id bigint not null,
    constraint result_rank_pkey primary key (index_id, rank, task_id)
);

-- The tasks whose results were taken in, as ranges of their ids, which are no neighbours of each other.
create table taskq.result_span (
    index_id bigint not null,
    first_id bigint not null,
    last_id bigint not null,
    constraint result_span_pkey primary key (index_id, first_id)
)
with (autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_threshold = 5000);
