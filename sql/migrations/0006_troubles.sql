-- Troubles, and the notifications that report them.

-- A keeper judges what is wrong at some campaigns, as `taskq explain` does, and stores that (begin_look.sql,
-- note_look.sql). Nothing that moves tasks reads or writes these tables.

create table taskq.watch (
    path text collate "C" not null,
    whole boolean not null,
    looked_at timestamptz not null,
    constraint watch_pkey primary key (path, whole)
);

comment on table taskq.watch is 'The campaigns at which keepers look, and when they last did; see watched_paths.sql.';
comment on column taskq.watch.whole is
    'Whether for those who may see the whole queue; else for a token that is for this campaign.';

create table taskq.known_trouble (
    trouble_id bigint not null,
    watched text collate "C" not null,
    whole boolean not null,
    code text collate "C" not null,
    subject text collate "C" not null,
    word text,
    after_s double precision not null,
    listed boolean not null,
    path text collate "C" not null,
    site text not null,
    host text not null,
    since timestamptz not null,
    noted_at timestamptz not null,
    holds_since timestamptz not null,
    seen_at timestamptz not null,
    gone_at timestamptz,
    closed boolean not null default false,
    lasted boolean not null,
    cost double precision,
    tasks bigint not null,
    lost bigint not null,
    blocks boolean not null,
    figures jsonb not null,
    acknowledged_at timestamptz,
    snoozed_until timestamptz,
    by text,
    note text,
    known_cost double precision,
    known_lost bigint,
    returned_at timestamptz,
    maintenance_id bigint,
    constraint known_trouble_pkey primary key (trouble_id),
    constraint known_trouble_texts_length check (length(note) <= 500 and length(subject) <= 300)
)
with (fillfactor = 50);

create unique index known_trouble_open on taskq.known_trouble (watched, whole, code, subject) where not closed;

comment on table taskq.known_trouble is
    'Reasons of `taskq explain` in which something is wrong: those that hold, and those of the last days. Bounded by '
    'note_look.sql.';
comment on column taskq.known_trouble.watched is 'The campaign that was explained; whole: as in watch.';
comment on column taskq.known_trouble.code is 'Of the reason, or `disk`; subject: the names that it is about, or the campaign.';
comment on column taskq.known_trouble.word is 'By which rules name it; null: none does. after_s: how long it must hold for that.';
comment on column taskq.known_trouble.listed is 'Whether views show it.';
comment on column taskq.known_trouble.path is 'The campaign that has all that it is about.';
comment on column taskq.known_trouble.since is 'As the reason says, else as noted_at: when a keeper first saw it.';
comment on column taskq.known_trouble.holds_since is 'Since when keepers have seen it at each look.';
comment on column taskq.known_trouble.gone_at is 'Since when it holds no longer; null: it does.';
comment on column taskq.known_trouble.closed is 'If it holds again, that is another trouble.';
comment on column taskq.known_trouble.lasted is 'It held for after_s, so that it is worth remembering.';
comment on column taskq.known_trouble.cost is 'In core-hours an hour; null: not known.';
comment on column taskq.known_trouble.figures is 'The numbers and words of its text, with the text and the commands.';
comment on column taskq.known_trouble.by is 'Who has acknowledged it, or snoozed it until snoozed_until, with the note.';
comment on column taskq.known_trouble.known_cost is 'What it cost then; known_lost: as lost then.';
comment on column taskq.known_trouble.returned_at is 'When it became so much worse that this counts no more.';
comment on column taskq.known_trouble.maintenance_id is 'The window in which it is expected; null: none.';


-- Notifications: keepers send events of troubles, since they know passwords and programs.

create table taskq.notify_rule (
    name text collate "C" not null,
    path text collate "C" not null,
    events text[] not null,
    target text not null,
    reach text not null generated always as (
        case when starts_with(target, 'mail:') then 'mail'
             when starts_with(target, 'webhook:https://') then 'webhook'
             else target end) stored,
    after_s double precision,
    login text not null,
    created_at timestamptz not null default clock_timestamp(),
    holder uuid,
    held_until timestamptz,
    attempts integer not null default 0,
    trouble text,
    retry_at timestamptz,
    sent_at timestamptz,
    sent_from text,
    constraint notify_rule_pkey primary key (name),
    constraint notify_rule_name_form check (name ~ '^[a-z0-9][a-z0-9-]{0,39}$'),
    constraint notify_rule_events_known check (
        cardinality(events) between 1 and 10
        and events <@ array['finished', 'paused', 'no-agents', 'failing', 'slow', 'trouble', 'disk', 'removal']),
    constraint notify_rule_target_form check (
        target ~ '^(mail|webhook|command):[!-~]+$' and length(target) <= 1000),
    constraint notify_rule_after_range check (after_s between 0 and 2592000),
    constraint notify_rule_texts_length check (length(trouble) <= 500 and length(sent_from) <= 200)
);

comment on table taskq.notify_rule is 'Which events of a campaign are sent, and to whom.';
comment on column taskq.notify_rule.target is
    'mail:ADDRESS, webhook:https://..., or webhook:NAME and command:NAME, which are files of the keeper''s user.';
comment on column taskq.notify_rule.reach is 'What a sender must be able to do.';
comment on column taskq.notify_rule.after_s is
    'How long a condition must hold before it becomes an event; null: each event has its own time.';
comment on column taskq.notify_rule.login is 'Who has made the rule.';
comment on column taskq.notify_rule.holder is 'The sender that is sending a message of it, until held_until.';
comment on column taskq.notify_rule.attempts is 'How many failed in a row; trouble: why the last one did.';
comment on column taskq.notify_rule.retry_at is 'Nothing is sent before.';
comment on column taskq.notify_rule.sent_at is 'When the last message was sent; sent_from: the host it was sent from.';

create table taskq.notify_noted (
    rule text collate "C" not null,
    trouble_id bigint not null,
    constraint notify_noted_pkey primary key (rule, trouble_id),
    constraint notify_noted_rule_fkey foreign key (rule) references taskq.notify_rule on delete cascade,
    constraint notify_noted_trouble_fkey foreign key (trouble_id) references taskq.known_trouble on delete cascade
);

create index notify_noted_trouble on taskq.notify_noted (trouble_id);

comment on table taskq.notify_noted is 'Troubles that have become an event of a rule.';

create table taskq.notify_event (
    event_id uuid not null,
    rule text collate "C" not null,
    event text not null,
    subject text collate "C" not null,
    trouble_id bigint,
    noted_at timestamptz not null,
    figures jsonb not null,
    status text not null default 'waiting',
    ended_at timestamptz,
    constraint notify_event_pkey primary key (event_id),
    constraint notify_event_rule_fkey foreign key (rule) references taskq.notify_rule on delete cascade,
    constraint notify_event_status_known check (status in ('waiting', 'sent', 'given up'))
);

create index notify_event_rule on taskq.notify_event (rule, noted_at);
create index notify_event_waiting on taskq.notify_event (rule, noted_at) where status = 'waiting';

comment on table taskq.notify_event is 'What is sent, once.';
comment on column taskq.notify_event.event is 'The code of the reason, as `taskq explain` has it; or `disk`.';
comment on column taskq.notify_event.subject is 'As of the trouble.';
comment on column taskq.notify_event.trouble_id is 'The trouble, which may be forgotten since; null: a test.';
comment on column taskq.notify_event.figures is 'The numbers and words of its text.';

create table taskq.notify_sender (
    holder uuid not null,
    host text not null,
    reaches text[] not null,
    until timestamptz not null,
    constraint notify_sender_pkey primary key (holder),
    constraint notify_sender_host_length check (length(host) <= 200)
);

comment on table taskq.notify_sender is 'Keepers that send.';
comment on column taskq.notify_sender.reaches is
    'What it can do: mail, webhook (to public addresses), webhook:NAME, command:NAME.';

create table taskq.notify_watch (
    only_one boolean not null default true,
    due_at timestamptz not null,
    wide_at timestamptz not null,
    look bigint not null default 0,
    begun_at timestamptz,
    noted bigint not null default 0,
    troubles bigint not null default 0,
    constraint notify_watch_pkey primary key (only_one),
    constraint notify_watch_only_one check (only_one)
);

comment on table taskq.notify_watch is 'One row: when keepers look next.';
comment on column taskq.notify_watch.wide_at is
    'When they look at the root and at the campaigns of tokens next; due_at: at all others.';
comment on column taskq.notify_watch.troubles is 'The largest id of a trouble.';
comment on column taskq.notify_watch.look is 'The number of the last look, which began at begun_at.';
comment on column taskq.notify_watch.noted is 'The last look whose troubles were stored; earlier ones come too late.';

insert into taskq.notify_watch (due_at, wide_at) values ('-infinity', '-infinity');


-- Maintenance windows, which people announce: no message about what is expected in one, and no judgement by time. They
-- end by themselves. See start_maintenance.sql.

create table taskq.maintenance (
    maintenance_id bigint not null,
    path text collate "C" not null,
    sites text[] not null,
    hosts text[] not null,
    begins timestamptz not null,
    ends timestamptz not null,
    why text not null,
    by text not null,
    ended_by text,
    constraint maintenance_pkey primary key (maintenance_id),
    constraint maintenance_bounded check (ends between begins and begins + interval '7 days'),
    constraint maintenance_texts_length check (length(why) between 1 and 500),
    constraint maintenance_names_number check (cardinality(sites) + cardinality(hosts) <= 1000)
);

comment on table taskq.maintenance is 'Announced times in which hosts, sites or campaigns are repaired.';
comment on column taskq.maintenance.path is 'The campaign that it is for, with all below it.';
comment on column taskq.maintenance.sites is 'Only at these sites and hosts; none of both: everywhere.';
comment on column taskq.maintenance.by is 'Who announced it; ended_by: who ended it before its time, or none.';


-- Who did what: a row for each act of people and of their programs that steers campaigns, their tasks, or what these depend
-- on, written by the functions that do it, in the same transaction; `@act` in the header of a function says by which verb.
-- Claims and reports write none.

create table taskq.act (
    act_id bigint not null generated always as identity,
    path text collate "C" not null,
    verb text collate "C" not null,
    who text collate "C" not null,
    pid integer,
    what text[] not null,
    began_at timestamptz not null,
    ended_at timestamptz not null,
    calls integer not null default 1,
    tasks bigint not null,
    constraint act_pkey primary key (act_id),
    constraint act_texts_length check (length(path) <= 1000 and length(verb) <= 20 and length(who) <= 200)
)
with (fillfactor = 80);

create index act_path on taskq.act (path, verb, who, act_id);

comment on table taskq.act is
    'Who did what at which campaign, also of removed ones; for 400 days, and 100,000 at most; see thin_acts.sql.';
comment on column taskq.act.verb is
    'pause, resume, cancel, retry, prioritise, change, ban, unban, archive, restore, remove, give, recover, drain, maintain, '
    'acknowledge, limit, quota, token, notify or pilot.';
comment on column taskq.act.path is 'The campaign that it concerns; / for what all share.';
comment on column taskq.act.who is 'A login, a token, or retention: the keeper; pid: of the backend, without a token.';
comment on column taskq.act.what is
    'In short: settings, inputs, the filter, the place and the reason of a ban, the owner, the name of a limit, token, rule or '
    'pilot; never a secret.';
comment on column taskq.act.began_at is
    'When its first transaction began; ended_at: when its last call ended; calls: how many there were.';
comment on column taskq.act.tasks is 'How many it moved; of a removal, an archive or a restore, how many there were.';
