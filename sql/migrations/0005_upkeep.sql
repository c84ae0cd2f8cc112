-- Upkeep: the keeper and what it remembers, the Redis front, sums of ended attempts.

create table taskq.keeper (
    only_one boolean not null default true,
    holder uuid,
    until timestamptz not null,
    rounds bigint not null default 0,
    renewed_at timestamptz not null default clock_timestamp(),
    secret bytea not null default sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())),
    constraint keeper_pkey primary key (only_one),
    constraint keeper_only_one check (only_one)
);

comment on table taskq.keeper is 'One row: the keeper that acts, and until when unless it renews.';
comment on column taskq.keeper.secret is 'Random, and signs the stamps that agents get; see stamp.sql.';
comment on column taskq.keeper.renewed_at is 'When the last round began.';
comment on column taskq.keeper.rounds is
    'How many rounds there were. A keeper that remembers more has seen work that this server lacks; see '
    'note_set_back.sql.';

insert into taskq.keeper (until) values ('-infinity');

create table taskq.set_back (
    noted_at timestamptz not null,
    gone_since timestamptz not null,
    gone_until timestamptz not null,
    rounds bigint not null,
    constraint set_back_pkey primary key (noted_at)
);

comment on table taskq.set_back is
    'When a keeper, or a stamp of an agent, showed that committed work is gone: another server took over without it, or came back.';
comment on column taskq.set_back.gone_since is 'The last round of a keeper that this server knows.';
comment on column taskq.set_back.gone_until is 'When a keeper heard of the last round.';
comment on column taskq.set_back.rounds is 'How many rounds of a keeper are gone.';

create table taskq.serving (
    only_one boolean not null default true,
    timeline bigint not null,
    since timestamptz not null,
    earlier bigint not null default 0,
    constraint serving_pkey primary key (only_one),
    constraint serving_only_one check (only_one)
);

comment on table taskq.serving is
    'One row: since when this server serves, where its own start does not show it; see serving_since.sql.';
comment on column taskq.serving.timeline is 'The server''s own number, which rises with each promotion of a standby.';
comment on column taskq.serving.since is 'When the keeper first saw this timeline.';
comment on column taskq.serving.earlier is
    'Timelines of earlier servers, added up, if this one began at 1 again: after pg_upgrade, or as a copy. See '
    'timeline.sql.';

insert into taskq.serving (timeline, since) values (0, '-infinity');

-- Some servers hide it; see wal_timeline.sql, which is not installed yet.
do $$
begin
    update taskq.serving
       set timeline = ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint;
exception
    when others then
        null;
end
$$;

create table taskq.stall (
    since timestamptz not null,
    until timestamptz not null,
    constraint stall_pkey primary key (since)
);

comment on table taskq.stall is
    'When the queue stood still, as keepers saw it: nobody could claim or report. See note_stall.sql.';

create table taskq.stopped (
    program text not null,
    host text not null,
    login text not null,
    why text not null,
    first_at timestamptz not null,
    last_at timestamptz not null,
    times integer not null default 1,
    constraint stopped_pkey primary key (login, program, host),
    constraint stopped_texts_length check (
        length(program) <= 200 and length(host) <= 200 and length(login) <= 200 and length(why) <= 500)
);

comment on table taskq.stopped is
    'Programs that serve the queue and ended by an error, in their own words, until one runs there again; see '
    'note_stopped.sql, which bounds it.';
comment on column taskq.stopped.program is 'The command, such as `taskq gateway`.';
comment on column taskq.stopped.login is 'Whose connection left the note: a login, or a token.';

create table taskq.brake (
    only_one boolean not null default true,
    since timestamptz,
    heard_at timestamptz,
    until timestamptz,
    silent integer not null default 0,
    open integer not null default 0,
    constraint brake_pkey primary key (only_one),
    constraint brake_only_one check (only_one),
    constraint brake_off_is_empty check (
        since is not null or (heard_at, until) is not distinct from (null, null) and silent = 0)
);

comment on table taskq.brake is
    'One row: the brake on expiry. It is on while so many agents are silent that an outage of the service must '
    'be the cause; see brake.sql.';
comment on column taskq.brake.since is 'When it was put on; null: it is off.';
comment on column taskq.brake.heard_at is 'When the first silent agent was heard again; null: none yet.';
comment on column taskq.brake.until is 'When the last of those that stay silent expire; null: not known.';
comment on column taskq.brake.silent is 'Sessions that are silent; open: sessions that are open.';

insert into taskq.brake default values;


-- How campaigns go, as the keeper measures it.

create table taskq.pulse (
    campaign_id bigint not null,
    since timestamptz not null,
    done bigint not null,
    failures bigint not null,
    constraint pulse_pkey primary key (campaign_id)
)
with (fillfactor = 50);

comment on table taskq.pulse is
    'The window in which a campaign''s share of failures is measured, with the counts at its beginning; of '
    'campaigns in which attempts failed. See pause_failing.sql.';

create table taskq.trend (
    campaign_id bigint not null,
    done bigint not null,
    failed bigint not null,
    failures bigint not null,
    unfinished bigint not null,
    minute integer not null,
    working integer not null,
    agents integer not null,
    constraint trend_pkey primary key (campaign_id, minute)
)
-- A thousand points come each minute, and old ones go every ten minutes: new ones soon use their space.
with (autovacuum_vacuum_scale_factor = 0.05);

comment on table taskq.trend is
    'Counts of campaigns with all below them, a point a minute, farther apart with age. Counts begin with the '
    'campaign, with what was removed (`removed_sum`), so that a rate is a difference and points can be left out. '
    'Bounded to some 20 MB by record_trends.sql and thin_trends.sql.';
comment on column taskq.trend.failures is 'Attempts that failed or were lost.';
comment on column taskq.trend.minute is 'Minutes since 1970; the counts are those at its end.';
comment on column taskq.trend.agents is 'Open sessions that serve it, above or below.';



-- The front: tasks leased ahead into Redis lists; see lease_ahead.sql.

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

comment on table taskq.front is 'One row: the front. Many calls read it, so nothing writes it often.';
comment on column taskq.front.name is 'Of this queue and its copies among others that use the same Redis; see front_name.sql.';
comment on column taskq.front.epoch is 'Counts how often the lists were begun anew; 0: there is no front.';
comment on column taskq.front.secret is 'Of the epoch: only entries that it authenticates count.';
comment on column taskq.front.pool_s is
    'A task leased ahead that no heartbeat or report names goes back to waiting after this time; it may be handed '
    'out in the first half of it.';

insert into taskq.front (name) values (left(replace(gen_random_uuid()::text, '-', ''), 16));

create table taskq.front_refiller (
    only_one boolean not null default true,
    holder uuid,
    until timestamptz not null,
    constraint front_refiller_pkey primary key (only_one),
    constraint front_refiller_only_one check (only_one)
);

comment on table taskq.front_refiller is 'One row: the refiller that acts, and until when unless it renews.';

insert into taskq.front_refiller (until) values ('-infinity');

create table taskq.front_sweep (
    only_one boolean not null default true,
    below uuid not null,
    constraint front_sweep_pkey primary key (only_one),
    constraint front_sweep_only_one check (only_one)
);

comment on table taskq.front_sweep is 'One row: how far the leases of the pool were looked through.';
comment on column taskq.front_sweep.below is 'No lease below this one is left.';

insert into taskq.front_sweep (below) values ('00000000-0000-0000-0000-000000000000');

create table taskq.front_list (
    campaign_id bigint not null,
    entries integer not null,
    rank integer not null,
    constraint front_list_pkey primary key (campaign_id)
)
with (fillfactor = 50);

comment on table taskq.front_list is 'What waits in the lists, as the refiller last reported.';
comment on column taskq.front_list.rank is 'The largest -priority among the entries.';


create table taskq.subtotal (
    campaign_id bigint not null,
    waiting bigint not null default 0,
    delayed bigint not null default 0,
    working bigint not null default 0,
    done bigint not null default 0,
    failed bigint not null default 0,
    cancelled bigint not null default 0,
    failures bigint not null default 0,
    losses bigint not null default 0,
    constraint subtotal_pkey primary key (campaign_id)
)
with (fillfactor = 50);

comment on table taskq.subtotal is
    'The sums of the counters of all campaigns below a campaign, so that the ended ones are summed once; see fold.sql.';

-- Of the root.
insert into taskq.subtotal (campaign_id) select campaign_id from taskq.campaign;


-- Who used what, and how attempts ended (`end_sum`). Attempts are summed up behind the reports, once, when no transaction
-- is left that may add an earlier one; so the sums outlive tasks and campaigns. See sum_ends.sql.

-- Attempts by the time of their end, to the pages that have them: of ten million rows it has some dozens of kB, and
-- a report pays 0.015 of an exchange for it.
create index attempt_ended on taskq.attempt using brin (ended_at) with (autosummarize = on);

create table taskq.usage (
    path text collate "C" not null,
    grain text collate "C" not null,
    since timestamptz not null,
    campaign_id bigint not null,
    owner text collate "C" not null,
    site text collate "C" not null,
    outcome text collate "C" not null,
    attempts bigint not null,
    run_ms bigint not null,
    core_ms bigint not null,
    gpu_ms bigint not null,
    constraint usage_pkey primary key (path, grain, since, campaign_id, owner, site, outcome),
    constraint usage_grain_known check (grain in ('hour', 'day', 'month'))
)
with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_threshold = 5000);

create index usage_age on taskq.usage (grain, since);

comment on table taskq.usage is
    'Sums of the attempts that have ended, kept when tasks and campaigns are removed. Hours become days, and days '
    'months; see thin_usage.sql.';
comment on column taskq.usage.since is 'When the hour, the day or the month begins, in UTC.';
comment on column taskq.usage.campaign_id is
    'Negative once tasks of the campaign were removed: then its attempts no longer say what it used.';
comment on column taskq.usage.owner is 'When the attempts were summed; empty: the campaign had none.';
comment on column taskq.usage.site is 'Empty: unknown. others: beyond the sites that a campaign may have.';
comment on column taskq.usage.outcome is 'As of an attempt. Attempts that were withdrawn are done.';
comment on column taskq.usage.run_ms is
    'See used_ms.sql; core_ms: times the cores of the slot; gpu_ms: times the GPUs that a task of the campaign needs, when the '
    'attempts were summed.';

create table taskq.summed (
    only_one boolean not null default true,
    until timestamptz not null,
    next_xid xid8 not null,
    next_at timestamptz not null,
    constraint summed_pkey primary key (only_one),
    constraint summed_only_one check (only_one)
);

comment on table taskq.summed is
    'One row: which attempts `usage` and `end_sum` have. Who changes an ended attempt locks it.';
comment on column taskq.summed.until is 'All that ended before, and no other.';
comment on column taskq.summed.next_xid is 'Transactions with a higher number got it after next_at.';

insert into taskq.summed (until, next_xid, next_at)
values (transaction_timestamp(), pg_current_xact_id(), transaction_timestamp());


-- How attempts ended, where and when; see sum_ends.sql.

create type taskq.ends as (
    campaign_id bigint,
    session_id bigint,
    since timestamptz,
    outcome text,
    sort text,
    attempts bigint,
    run_ms bigint,
    logs double precision,
    squares double precision,
    numbers bigint,
    number_sum double precision,
    number_squares double precision,
    first_task bigint,
    last_task bigint,
    first_at timestamptz,
    last_at timestamptz
);

comment on type taskq.ends is
    'Attempts of a session in a campaign that ended within ten minutes in the same way; the columns are those of '
    '`end_sum`.';

create table taskq.end_sum (
    since timestamptz not null,
    grain text collate "C" not null,
    campaign_id bigint not null,
    host text collate "C" not null,
    site text collate "C" not null,
    release text collate "C" not null,
    outcome text collate "C" not null,
    sort text collate "C" not null,
    attempts bigint not null,
    run_ms bigint not null,
    core_ms bigint not null,
    logs double precision not null,
    squares double precision not null,
    numbers bigint not null,
    number_sum double precision not null,
    number_squares double precision not null,
    first_task bigint,
    last_task bigint,
    first_at timestamptz,
    last_at timestamptz,
    constraint end_sum_pkey primary key (since, grain, campaign_id, host, site, release, outcome, sort),
    constraint end_sum_grain_known check (grain in ('10 min', 'hour'))
)
with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_threshold = 5000);

comment on table taskq.end_sum is
    'How attempts ended, by campaign, host and time. Ten minutes become hours after a day; hours go after a week. '
    'Bounded by add_end_sums.sql and thin_end_sums.sql.';
comment on column taskq.end_sum.host is
    'Empty: unnamed, or beyond the rows that a time may have, as are site and release.';
comment on column taskq.end_sum.outcome is
    'As of an attempt, or refused. Attempts that were withdrawn are done.';
comment on column taskq.end_sum.sort is
    'The class of error; of a success the shape of its result, see shape_of.sql. other: beyond the sorts that a '
    'campaign may have in a time.';
comment on column taskq.end_sum.run_ms is 'See used_ms.sql; core_ms: times the cores of the slot.';
comment on column taskq.end_sum.logs is
    'Sum of the natural logarithms of the seconds that they ran; squares: of the squares of these.';
comment on column taskq.end_sum.numbers is
    'Results that have the number by which the campaign ranks them; number_sum, number_squares: sums of these numbers, '
    'and of their squares.';
comment on column taskq.end_sum.first_task is 'The least id of their tasks; last_task: the greatest.';
comment on column taskq.end_sum.first_at is 'When the first of them ended; last_at: the last.';
