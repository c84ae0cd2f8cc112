-- The gateway: tokens, and sessions that were opened with one.
--
-- Of a token only its SHA-256 is kept: 256 random bits need no salt. kind: a site's token opens
-- sessions, a manager's is used as it is. name: unique among the tokens that are not revoked, so
-- that a successor can have it. paths: the campaigns that it is for, each with all below it.
-- networks: where sessions may be opened from; none: anywhere. uses: the sessions that it has
-- opened, counted only under max_uses: a row that each enrolment changes makes them wait for each
-- other's commit.

-- In the order in which exchanges come to them: a queue may be at work meanwhile.
lock table taskq.campaign, taskq.session in access exclusive mode;

create type taskq.token_kind as enum ('site', 'manager');

create table taskq.token (
    token_id bigint generated always as identity,
    kind taskq.token_kind not null,
    name text collate "C" not null,
    hash bytea not null,
    paths text[] collate "C" not null,
    networks cidr[] not null default '{}',
    max_uses integer,
    uses integer not null default 0,
    created_at timestamptz not null,
    expires_at timestamptz not null,
    revoked_at timestamptz,
    constraint token_pkey primary key (token_id),
    constraint token_hash_key unique (hash),
    constraint token_hash_length check (length(hash) = 32),
    constraint token_name_length check (length(name) between 1 and 100),
    constraint token_paths_some check (cardinality(paths) between 1 and 1000),
    constraint token_networks_range check (cardinality(networks) <= 1000),
    constraint token_max_uses_range check (max_uses between 1 and 1000000000),
    constraint token_uses_range check (uses between 0 and coalesce(max_uses, 0)),
    constraint token_limits_of_sites
        check (kind = 'site' or networks = '{}' and max_uses is null)
);

create unique index token_name on taskq.token (name) where revoked_at is null;


-- token_id: null: opened beside the database. token_hash: of the session's own token. drain: the
-- agent shall claim no more and leave. address: where the agent came from, as the gateway saw it.
-- A beat still writes one heap tuple: no index mentions what it changes.
alter table taskq.session
    add column token_id bigint,
    add column token_hash bytea,
    add column drain boolean not null default false,
    add column address inet,
    add constraint session_token_hash_length check (length(token_hash) = 32),
    add constraint session_token_whole check ((token_id is null) = (token_hash is null));

create unique index session_token_hash on taskq.session (token_hash) where token_hash is not null;

create index session_token on taskq.session (token_id) where token_id is not null;
