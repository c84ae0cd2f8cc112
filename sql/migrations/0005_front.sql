-- The front: tasks leased ahead into Redis lists; see functions/lease_ahead.sql.
--
-- campaign.front: whether tasks of the campaign may be leased ahead.

-- Their results have a column more.
drop function if exists taskq.servable(text, double precision, text[], integer);
drop function if exists taskq.standing(text);

-- In the order in which exchanges come to them: a queue may be at work meanwhile.
lock table taskq.campaign in access exclusive mode;

alter table taskq.campaign
    add column front boolean not null default true;

-- One row. name: of this queue among others that use the same Redis. epoch: counts how often the
-- lists were begun anew; 0: there is no front. secret: of the epoch; what it authenticates counts.
-- pool_s: seconds after which a task leased ahead that nobody names goes back to waiting; it may be
-- handed out in the first half of them. Read by many calls, so nothing writes it often.
create table taskq.front (
    only_one boolean not null default true,
    name text not null,
    epoch bigint not null default 0,
    secret bytea not null default '',
    pool_s double precision not null default 120,
    begun_at timestamptz,
    constraint front_pkey primary key (only_one),
    constraint front_only_one check (only_one),
    constraint front_pool_range check (pool_s between 1 and 86400),
    constraint front_secret_length check (length(secret) = 32 or epoch = 0)
);

-- One row: the refiller that acts, and until when unless it renews.
create table taskq.front_refiller (
    only_one boolean not null default true,
    holder uuid,
    until timestamptz not null,
    constraint front_refiller_pkey primary key (only_one),
    constraint front_refiller_only_one check (only_one)
);

-- One row: all leases of the pool below this one have been dealt with.
create table taskq.front_sweep (
    only_one boolean not null default true,
    below uuid not null,
    constraint front_sweep_pkey primary key (only_one),
    constraint front_sweep_only_one check (only_one)
);

insert into taskq.front (name) values (left(replace(gen_random_uuid()::text, '-', ''), 16));
insert into taskq.front_refiller (until) values ('-infinity');
insert into taskq.front_sweep (below) values ('00000000-0000-0000-0000-000000000000');

-- What waits in the lists, as the refiller has last told. rank: the largest -priority among them.
create table taskq.front_list (
    campaign_id bigint not null,
    entries integer not null,
    rank integer not null,
    constraint front_list_pkey primary key (campaign_id)
)
with (fillfactor = 50);
