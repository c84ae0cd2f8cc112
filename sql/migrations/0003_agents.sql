-- Agents: their sessions, the tokens that let them in, who is kept away, gateways, and the batch jobs that carry
-- agents.

-- What a heartbeat says of anything but attempts: the members that taskq_agent.protocol.Heartbeat has of it, which
-- has their limits too. beat() checks their types by these.
create domain taskq.tallied as integer constraint tallied_range check (value >= 0);

create type taskq.trouble as (
    failures integer,
    error_class text,
    try_in_s double precision,
    warnings text[],
    cause text
);

create type taskq.campaign_outcomes as (
    campaign bigint,
    done taskq.tallied,
    failed taskq.tallied
);

create type taskq.smaller_batch as (
    campaign bigint,
    size integer,
    error_class text
);

create type taskq.device_share as (
    name text,
    parts integer
);

create type taskq.named_share as (
    name text,
    amount bigint
);

create type taskq.slot_share as (
    slot integer,
    campaign bigint,
    task bigint,
    devices taskq.device_share[],
    resources taskq.named_share[]
);

create type taskq.said as (
    trouble taskq.trouble,
    tally taskq.campaign_outcomes[],
    batches taskq.smaller_batch[],
    shares taskq.slot_share[]
);

create table taskq.session (
    session_id bigint generated always as identity,
    key uuid not null,
    campaign_id bigint not null,
    opened_at timestamptz not null,
    heartbeat_at timestamptz not null,
    lease_s double precision not null,
    ended_at timestamptz,
    expired boolean not null default false,
    slots integer not null,
    pid integer not null,
    agent text not null,
    host text not null,
    site text not null,
    release text not null,
    offers text[] not null default '{}',
    token_id bigint,
    token_hash bytea,
    drain boolean not null default false,
    address inet,
    said jsonb,
    claims jsonb,
    left_why text,
    end_class text,
    exit_code integer,
    attempts integer,
    suspect text,
    banned jsonb,
    constraint session_pkey primary key (session_id),
    constraint session_key_key unique (key),
    constraint session_lease_range check (lease_s between 1 and 86400),
    constraint session_expired_is_ended check (not expired or ended_at is not null),
    constraint session_left_why_length check (length(left_why) <= 2000),
    constraint session_end_class_length check (length(end_class) <= 100),
    constraint session_token_hash_length check (length(token_hash) = 32),
    constraint session_token_whole check ((token_id is null) = (token_hash is null)),
    constraint session_said_object check (jsonb_typeof(said) = 'object'),
    constraint session_claims_array check (jsonb_typeof(claims) = 'array'),
    constraint session_banned_array check (jsonb_typeof(banned) = 'array')
)
with (fillfactor = 50);

create index session_open on taskq.session (session_id) where ended_at is null;
create index session_ended on taskq.session (ended_at) where ended_at is not null;
create unique index session_token_hash on taskq.session (token_hash) where token_hash is not null;
create index session_token on taskq.session (token_id) where token_id is not null;
-- For a walk from host to host of a campaign. No other statement implies the predicate: without statistics, those
-- that look for one open session by its number or token would otherwise walk through this index.
create index session_host on taskq.session (campaign_id, host) where ended_at is null and host <> '';
-- For the agents of a pilot job. Again no other statement implies the predicate.
create index session_pilot on taskq.session (agent) where agent like 'taskq-%';

comment on table taskq.session is
    'Presence of an agent, one row per process start; kept, since attempts refer to it.';
comment on column taskq.session.key is 'Drawn by the agent, so that opening can be repeated.';
comment on column taskq.session.campaign_id is 'It serves this campaign with all below it.';
comment on column taskq.session.lease_s is 'Seconds without a heartbeat after which its leases expire.';
comment on column taskq.session.offers is 'Tags that the agent offers; see offered.sql.';
comment on column taskq.session.token_id is 'The token that opened it; null: a direct agent.';
comment on column taskq.session.token_hash is 'SHA-256 of the session''s own token.';
comment on column taskq.session.drain is 'The agent is to claim no more, and to leave.';
comment on column taskq.session.address is 'Where the agent came from, as the gateway saw it.';
comment on column taskq.session.said is
    'What its last heartbeat said of anything but attempts, as the type taskq.said has it; null: nothing, so '
    'all is well.';
comment on column taskq.session.claims is
    'What its last heartbeat said of claims of tasks that begin together, see taskq_agent.protocol.HeldClaim: begun '
    'has those that its programs have begun; without it, they do not say.';
comment on column taskq.session.left_why is
    'Why the agent left; this, exit_code and attempts (how many ran there) are its own report.';
comment on column taskq.session.end_class is
    'Class of error of the attempts that the end of its batch job cut off; null: it did not end so.';
comment on column taskq.session.suspect is 'Why its host is slowed; see judge_hosts.sql.';
comment on column taskq.session.banned is
    'Campaigns below its own for which its host or site is banned, each with the reason: the agent leaves them out. '
    'null: none. See campaign_bans.sql.';


-- Tokens. Each kind of managers' tokens may do what the one before may: a manager looks at campaigns, steers and
-- feeds them; a submitter creates and changes them, so it decides what agents execute; a pickler has agents unpickle
-- what it sends. permit.sql compares by this order.
create type taskq.token_kind as enum ('site', 'manager', 'submitter', 'pickler');

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
    max_output_bytes bigint not null default 107374182400,
    at_site text,
    constraint token_pkey primary key (token_id),
    constraint token_hash_key unique (hash),
    constraint token_hash_length check (length(hash) = 32),
    constraint token_name_length check (length(name) between 1 and 100),
    constraint token_paths_some check (cardinality(paths) between 1 and 1000),
    constraint token_networks_range check (cardinality(networks) <= 1000),
    constraint token_max_uses_range check (max_uses between 1 and 1000000000),
    constraint token_uses_range check (uses between 0 and coalesce(max_uses, 0)),
    constraint token_max_output_range check (max_output_bytes between 0 and 1125899906842624),
    constraint token_limits_of_sites
        check (kind = 'site' or networks = '{}' and max_uses is null and at_site is null),
    constraint token_at_site_length check (length(at_site) between 1 and 200)
);

create unique index token_name on taskq.token (name) where revoked_at is null;

comment on table taskq.token is
    'Tokens. A site''s token opens sessions; the other kinds are managers'' tokens, which go with each request.';
comment on column taskq.token.name is 'Unique among the tokens that are not revoked, so that a successor can have it.';
comment on column taskq.token.hash is 'SHA-256 of the token, which has 256 random bits and needs no salt.';
comment on column taskq.token.paths is 'Campaigns that it is for, each with all below it.';
comment on column taskq.token.networks is 'Where its sessions may be opened from; empty: anywhere.';
comment on column taskq.token.uses is
    'Sessions that it has opened; counted only under max_uses, since enrolments that change one row wait for each '
    'other.';
comment on column taskq.token.at_site is
    'The site of its agents, whatever they report; null: the one that they report, else the token''s name.';
comment on column taskq.token.max_output_bytes is
    'How many bytes of output files its agents may have stored, in all campaigns.';


create table taskq.ban (
    kind text not null,
    name text collate "C" not null,
    path text collate "C" not null default '/',
    why text not null,
    login text not null,
    banned_at timestamptz not null,
    until timestamptz,
    constraint ban_pkey primary key (kind, name, path),
    constraint ban_kind_known check (kind in ('host', 'site')),
    constraint ban_name_length check (length(name) between 1 and 200),
    constraint ban_path_length check (length(path) between 1 and 1000),
    constraint ban_why_length check (length(why) between 1 and 500)
);

comment on table taskq.ban is
    'Hosts and sites that operators keep agents away from, for all campaigns or for one with all below it. A ban '
    'drains the sessions that serve nothing else, refuses new ones, and is noted in the others, whose agents leave '
    'the campaign out; nothing that moves tasks reads this.';
comment on column taskq.ban.name is 'The host or site, as agents name it.';
comment on column taskq.ban.path is 'The campaign, with all below it; / means all campaigns.';
comment on column taskq.ban.why is 'For agents and people.';
comment on column taskq.ban.login is 'Who has set it.';
comment on column taskq.ban.until is
    'When it ends, or was lifted; null: it lasts until it is lifted. A ban that has ended stays: failures from '
    'before its end accuse nobody.';


create table taskq.refused_hello (
    token_id bigint not null,
    host text not null,
    site text not null,
    why text not null,
    first_at timestamptz not null,
    last_at timestamptz not null,
    own boolean not null default false,
    constraint refused_hello_pkey primary key (token_id, host),
    constraint refused_hello_texts_length check (length(host) <= 200 and length(site) <= 200 and length(why) <= 500)
);

comment on table taskq.refused_hello is
    'Hosts whose agents got no session although their token is known here: it is used up, revoked or expired, the '
    'host or site is banned, or the agent says that it cannot work there. See note_refused_hellos.sql, which bounds it.';
comment on column taskq.refused_hello.host is 'As the agent reported it; so is site.';
comment on column taskq.refused_hello.own is 'Whether `why` are the words of the agent, which did not ask for a session.';
comment on column taskq.refused_hello.why is 'Of the latest refusal, as is last_at, which may be half a minute late.';


create table taskq.refusal (
    campaign_id bigint not null,
    session_id bigint not null,
    times integer not null default 1,
    claimed_at timestamptz not null,
    last_at timestamptz not null,
    error_class text,
    error text,
    pauses integer not null default 1,
    constraint refusal_pkey primary key (campaign_id, session_id)
);

create index refusal_last_at on taskq.refusal (last_at);

comment on table taskq.refusal is
    'Agents that could not run a campaign since it was last opened or changed: its program is missing on their '
    'node, or its `prepare` fails. The task goes back, counted neither as failure nor as loss, and the agent '
    'serves other campaigns for a while. See pause_refused.sql.';
comment on column taskq.refusal.times is
    'How often since any agent has succeeded; attempts that ran side by side count once.';
comment on column taskq.refusal.pauses is
    'How often in a row the agent has refused the campaign, even if others succeeded; see note_refusals.sql.';
comment on column taskq.refusal.claimed_at is 'Of the last refused attempt, as are last_at, error_class and error.';

create table taskq.refused (
    campaign_id bigint not null,
    done bigint,
    since timestamptz,
    constraint refused_pkey primary key (campaign_id)
);

comment on table taskq.refused is 'Campaigns that were ever refused, changed or opened again.';
comment on column taskq.refused.done is
    'How many tasks were done when the keeper last looked; null: it has not, since the campaign was opened or changed.';
comment on column taskq.refused.since is 'When the campaign was last changed or opened again; null: never.';


create table taskq.gateway (
    holder uuid not null,
    name text not null,
    release text not null,
    sessions integer not null,
    per_s double precision not null,
    front boolean,
    seen_at timestamptz not null,
    certificate_ends timestamptz,
    constraint gateway_pkey primary key (holder)
)
with (fillfactor = 50);

comment on table taskq.gateway is 'Gateways that serve agents now, for people to look at.';
comment on column taskq.gateway.holder is 'Drawn by the process.';
comment on column taskq.gateway.name is 'Where it is, for people.';
comment on column taskq.gateway.sessions is 'Sessions that it heard lately.';
comment on column taskq.gateway.per_s is 'Exchanges per second since its last report.';
comment on column taskq.gateway.front is 'Whether it serves claims from the front; null: it has none.';
comment on column taskq.gateway.certificate_ends is 'Null: it has no certificate of its own.';


-- Pilots. A pilot says on which batch system agents start, with which settings, and for which campaigns. A loop
-- outside the database submits its jobs (`taskq pilot run`), and keeps all that it must know here, so that another
-- loop can take over.

create table taskq.pilot (
    pilot_id bigint generated always as identity,
    name text not null,
    key text not null,
    path text collate "C" not null,
    driver text not null,
    settings jsonb not null,
    status text not null default 'active',
    paused_why text,
    failures integer not null default 0,
    failed_at timestamptz,
    trouble text,
    retry_at timestamptz,
    next_number integer not null default 1,
    holder uuid,
    held_until timestamptz,
    looked_at timestamptz,
    looked_from text,
    created_at timestamptz not null default clock_timestamp(),
    constraint pilot_pkey primary key (pilot_id),
    constraint pilot_name_key unique (name),
    constraint pilot_name_form check (name ~ '^[a-z0-9][a-z0-9-]{0,39}$'),
    constraint pilot_key_form check (key ~ '^[0-9a-f]{8}$'),
    constraint pilot_driver_length check (length(driver) between 1 and 40),
    constraint pilot_settings_object check (
        jsonb_typeof(settings) = 'object' and octet_length(settings::text) <= 65536),
    constraint pilot_status_known check (status in ('active', 'paused', 'removed')),
    constraint pilot_texts_length check (
        length(trouble) <= 2000 and length(paused_why) <= 3000 and length(looked_from) <= 200)
);

comment on table taskq.pilot is 'Stored rules by which agents are started as jobs of batch systems.';
comment on column taskq.pilot.name is 'A part of the names of its jobs.';
comment on column taskq.pilot.key is
    'Random, so that no two queues, and no two pilots of one name, share names of jobs.';
comment on column taskq.pilot.path is 'The campaign that its agents serve, with all below it.';
comment on column taskq.pilot.settings is 'See taskq/pilots/settings.py.';
comment on column taskq.pilot.status is
    'paused, removed: no job is submitted; the row of a removed pilot goes when its last job has ended.';
comment on column taskq.pilot.paused_why is 'Why it paused itself; null: it did not.';
comment on column taskq.pilot.failures is
    'Submissions that failed, and jobs that died before their agent was heard, in a row; failed_at: the last one.';
comment on column taskq.pilot.trouble is 'The batch system''s message about the last failure.';
comment on column taskq.pilot.retry_at is 'Nothing is submitted before.';
comment on column taskq.pilot.next_number is 'The number of the next job.';
comment on column taskq.pilot.holder is 'The loop that acts for it, until held_until; see hold_pilot.sql.';
comment on column taskq.pilot.looked_at is 'When a loop last acted for it; looked_from: on which host.';

create table taskq.pilot_job (
    pilot_id bigint not null,
    number integer not null,
    name text not null,
    status text not null default 'submitting',
    native_id text,
    place text,
    began_at timestamptz not null,
    submitted_at timestamptz,
    started_at timestamptz,
    heard_at timestamptz,
    cancelled_at timestamptz,
    ended_at timestamptz,
    outcome text,
    why text,
    exit_code integer,
    tail text,
    missing_at timestamptz,
    missing_polls integer not null default 0,
    constraint pilot_job_pkey primary key (pilot_id, number),
    constraint pilot_job_name_key unique (name),
    constraint pilot_job_pilot_fkey foreign key (pilot_id) references taskq.pilot on delete cascade,
    constraint pilot_job_status_known check (status in ('submitting', 'queued', 'running', 'ended')),
    constraint pilot_job_outcome_known check (
        outcome in ('served', 'died', 'refused', 'cancelled', 'vanished')),
    constraint pilot_job_ends_so check (
        (status = 'ended') = (ended_at is not null) and (status = 'ended') = (outcome is not null)),
    constraint pilot_job_texts_length check (
        length(native_id) <= 200 and length(place) <= 200 and length(why) <= 2000 and length(tail) <= 4000)
);

create index pilot_job_live on taskq.pilot_job (pilot_id, number) where status <> 'ended';

comment on table taskq.pilot_job is 'Batch jobs of pilots; each carries an agent on each of its nodes.';
comment on column taskq.pilot_job.name is
    'Its name in the batch system, which its agents have too; see begin_pilot_jobs.sql. The collation is '
    'that of session.agent, so that the index there serves.';
comment on column taskq.pilot_job.status is
    'submitting: the loop is about to submit it, or died meanwhile; queued, running: as the batch system says.';
comment on column taskq.pilot_job.native_id is 'The batch system''s name for it.';
comment on column taskq.pilot_job.place is 'The host, if the driver chose it.';
comment on column taskq.pilot_job.began_at is 'When this row was created.';
comment on column taskq.pilot_job.submitted_at is
    'When the loop first saw it so; the same applies to started_at and ended_at.';
comment on column taskq.pilot_job.heard_at is 'When the first of its agents opened a session.';
comment on column taskq.pilot_job.cancelled_at is 'When the loop asked the batch system to end it.';
comment on column taskq.pilot_job.outcome is
    'served: its agent was heard; died: it was not; refused: the batch system did not take the job; cancelled: '
    'before its agent was heard; vanished: missing for minutes, and nobody saw its end.';
comment on column taskq.pilot_job.missing_at is
    'Since when the batch system''s answers lack it; missing_polls: how many in a row.';
comment on column taskq.pilot_job.why is 'The batch system''s words.';
comment on column taskq.pilot_job.exit_code is 'Of the agent; the highest of several.';
comment on column taskq.pilot_job.tail is 'The end of what the job wrote.';
