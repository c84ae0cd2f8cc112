-- What decides whether work counts, is tried again, or stops: late results, classes of error, tasks
-- that kill their agents, campaigns in which nearly everything fails, and the loss of many agents at
-- a time.
--
-- late_results: 'salvage': a success of an attempt that was given up as lost still counts, as long as
--     no other was accepted.
-- never_retry: classes of error after which a task is failed at once.
-- max_lost_nodes: a task whose agents were lost on so many different nodes is failed, as poison.
-- max_failure_share: the campaign pauses itself when a larger share of its recent attempts failed;
--     null: never. paused_why: why it did; null when somebody paused it, or it is not paused.

-- Their results have columns more.
drop function if exists taskq.keep(uuid, double precision);
drop function if exists taskq.counts(text, integer);

-- In the order in which exchanges come to them: a queue may be at work meanwhile.
lock table taskq.campaign, taskq.session in access exclusive mode;

alter table taskq.campaign
    add column late_results text not null default 'reject',
    add column never_retry text[] not null default '{}',
    add column max_lost_nodes integer not null default 3,
    add column max_failure_share double precision default 0.9,
    add column paused_why text,
    add constraint campaign_late_results_known check (late_results in ('reject', 'salvage')),
    add constraint campaign_never_retry_range check (cardinality(never_retry) <= 100),
    add constraint campaign_max_lost_nodes_range check (max_lost_nodes between 1 and 1000),
    add constraint campaign_max_failure_share_range check (
        max_failure_share > 0 and max_failure_share < 1);

-- One row: since when this server has been the one that serves, as far as its own start does not say.
-- timeline: counts promotions of standbys; since: when the keeper first saw it. See
-- functions/serving_since.sql.
create table taskq.serving (
    only_one boolean not null default true,
    timeline bigint not null,
    since timestamptz not null,
    constraint serving_pkey primary key (only_one),
    constraint serving_only_one check (only_one)
);

insert into taskq.serving (timeline, since) values (0, '-infinity');

-- Not every server tells it; see functions/wal_timeline.sql.
do $$
begin
    update taskq.serving
       set timeline = ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint;
exception
    when others then
        null;
end
$$;

-- Roles: which logins of the server have been given what of ../roles. The grants themselves are in
-- PostgreSQL; this says what to grant anew when a release has changed functions.
--
-- login: what `drop role` leaves behind is the number of nobody, and counts no more.
create table taskq.login_role (
    login regrole not null,
    role text not null,
    constraint login_role_pkey primary key (login, role)
);

-- One row: the brake on expiry, see functions/brake.sql. since: when so many agents were silent that it
-- was taken for an outage; null: it is off. heard_at: when the first was heard again; null: none yet.
-- until: when the last of those that stay silent expire; null: not known. silent, open: sessions that
-- are silent, of those that are open.
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

insert into taskq.brake default values;

-- Of campaigns in which attempts failed: the window in which their share is measured. since: its
-- beginning; done, failures: what was counted then. See functions/pulse.sql.
create table taskq.pulse (
    campaign_id bigint not null,
    since timestamptz not null,
    done bigint not null,
    failures bigint not null,
    constraint pulse_pkey primary key (campaign_id)
)
with (fillfactor = 50);

-- trouble: why the session's agent makes one attempt at a time only, as its last beat has told; null:
-- all is well. See functions/beat.sql.
alter table taskq.session
    add column trouble jsonb,
    add constraint session_trouble_object check (
        jsonb_typeof(trouble) = 'object' and octet_length(trouble::text) <= 2000);
