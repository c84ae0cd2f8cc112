-- What counts towards limits that claims keep: those with a name, which campaigns share, and a campaign's on the tasks
-- that run at each site.

-- Claims of agents that count towards a limit. Under a snapshot that is held for long nothing that was written goes
-- away, so a claim must not read what it has replaced: each of these tables has one row for a session, or one for all,
-- and each change gives it the next number. A look for a row asks for the highest number, and meets no other.

create table taskq.limit_claim (
    campaign_id bigint not null,
    name text collate "C" not null,
    place integer not null,
    session_id bigint not null,
    number bigint not null,
    campaigns bigint[] not null,
    leases uuid[] not null,
    counts integer[] not null,
    slots integer not null,
    tasks bigint not null,
    constraint limit_claim_pkey primary key (campaign_id, name, place, session_id, number)
)
with (autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_threshold = 1000);

comment on table taskq.limit_claim is
    'Claims that count towards limits, a row for each session; see limit_room.sql.';
comment on column taskq.limit_claim.campaign_id is
    '0: of a limit with a name; else the campaign that limits how many of its tasks run at a site.';
comment on column taskq.limit_claim.name is 'Of the limit, or of the site.';
comment on column taskq.limit_claim.place is 'A hash of the session, so that a walk may begin anywhere.';
comment on column taskq.limit_claim.number is 'Rises with each change, so that the row is found next to dead ones.';
comment on column taskq.limit_claim.leases is 'Those of the claims, each with its element of campaigns and of counts.';
comment on column taskq.limit_claim.slots is
    'Of the session, which starts no more at a time; at a site, where tasks count, the greatest number.';
comment on column taskq.limit_claim.counts is
    'At most how many tasks of a claim run; later claims find and forget those that have ended.';
comment on column taskq.limit_claim.tasks is 'The sum of counts.';

create table taskq.limit_total (
    campaign_id bigint not null,
    name text collate "C" not null,
    number bigint not null,
    starts bigint not null,
    constraint limit_total_pkey primary key (campaign_id, name, number)
)
with (autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_threshold = 1000);

comment on table taskq.limit_total is 'How many starts count towards a limit: by session, no more than its slots.';
comment on column taskq.limit_total.campaign_id is 'As limit_claim.campaign_id.';
comment on column taskq.limit_total.name is 'As limit_claim.name.';
comment on column taskq.limit_total.number is 'As limit_claim.number.';
