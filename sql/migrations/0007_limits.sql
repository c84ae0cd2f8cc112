-- What counts towards limits that claims keep.

-- Claims of agents that count towards a limit. Under a snapshot that is held for long nothing that was written goes
-- away, so a claim must not read what it has replaced: each of these tables has one row for a session, or one for all,
-- and each change gives it the next number. A look for a row asks for the highest number, and meets no other.

create table taskq.site_claim (
    campaign_id bigint not null,
    site text collate "C" not null,
    place integer not null,
    session_id bigint not null,
    number bigint not null,
    leases uuid[] not null,
    counts integer[] not null,
    tasks bigint not null,
    constraint site_claim_pkey primary key (campaign_id, site, place, session_id, number)
)
with (autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_threshold = 1000);

comment on table taskq.site_claim is
    'Claims of agents at a site, in campaigns that limit how many tasks run there, a row for each session; see '
    'site_room.sql.';
comment on column taskq.site_claim.place is 'A hash of the session, so that a walk may begin anywhere.';
comment on column taskq.site_claim.number is 'Rises with each change, so that the row is found next to dead ones.';
comment on column taskq.site_claim.leases is 'Those of the claims, each with its element of counts.';
comment on column taskq.site_claim.counts is
    'At most how many tasks of a claim run; later claims find and forget those that have ended.';
comment on column taskq.site_claim.tasks is 'The sum of counts.';

create table taskq.site_total (
    campaign_id bigint not null,
    site text collate "C" not null,
    number bigint not null,
    tasks bigint not null,
    constraint site_total_pkey primary key (campaign_id, site, number)
)
with (autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_threshold = 1000);

comment on table taskq.site_total is 'The sum of site_claim.tasks of a campaign at a site.';
comment on column taskq.site_total.number is 'As site_claim.number.';

create table taskq.limit_claim (
    name text collate "C" not null,
    place integer not null,
    session_id bigint not null,
    number bigint not null,
    campaigns bigint[] not null,
    leases uuid[] not null,
    counts integer[] not null,
    slots integer not null,
    tasks bigint not null,
    constraint limit_claim_pkey primary key (name, place, session_id, number)
)
with (autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_threshold = 1000);

comment on table taskq.limit_claim is
    'Claims that count towards named limits, a row for each session; see limit_room.sql.';
comment on column taskq.limit_claim.place is 'A hash of the session, so that a walk may begin anywhere.';
comment on column taskq.limit_claim.number is 'As site_claim.number.';
comment on column taskq.limit_claim.leases is 'Those of the claims, each with its element of campaigns and of counts.';
comment on column taskq.limit_claim.slots is 'Of the session, which starts no more at a time.';
comment on column taskq.limit_claim.counts is
    'At most how many tasks of a claim run; later claims find and forget those that have ended.';
comment on column taskq.limit_claim.tasks is 'The sum of counts.';

create table taskq.limit_total (
    name text collate "C" not null,
    number bigint not null,
    starts bigint not null,
    constraint limit_total_pkey primary key (name, number)
)
with (autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_threshold = 1000);

comment on table taskq.limit_total is 'How many starts count towards a named limit: by session, no more than its slots.';
comment on column taskq.limit_total.number is 'As site_claim.number.';
