-- Notification rules: which events of a campaign are told, and to whom; see taskq/notify.
--
-- Detected in the database, from counters and sessions (functions/note_events.sql); sent by keepers, which
-- know passwords and programs. Nothing that moves tasks reads or writes these tables.

-- events: what is told. target: mail:ADDRESS, webhook:https://..., or webhook:NAME and command:NAME, which are
--     files of whoever runs the keeper. reach: what a sender must be able to do. after_s: for how long it must
--     be so before it is told; null: as note_events() says. login: who has made the rule.
-- holder, held_until: the sender that has a message of it under way. attempts: how many failed, one after the
--     other. trouble: why the last one did; retry_at: nothing is sent before. sent_at, sent_from: the last
--     message that was sent, and the host it was sent from.
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
        and events <@ array['finished', 'paused', 'no-agents', 'failing']),
    constraint notify_rule_target_form check (
        target ~ '^(mail|webhook|command):[!-~]+$' and length(target) <= 1000),
    constraint notify_rule_after_range check (after_s between 0 and 2592000),
    constraint notify_rule_texts_length check (length(trouble) <= 500 and length(sent_from) <= 200)
);

-- What is so now, of each rule. subject: the campaign it is about, the rule's or one above or below it.
-- since: since when. told: whether it has become an event. gone_at: since when it is so no longer; null: it is.
create table taskq.notify_condition (
    rule text collate "C" not null,
    event text not null,
    subject text collate "C" not null,
    since timestamptz not null,
    told boolean not null default false,
    gone_at timestamptz,
    figures jsonb not null,
    constraint notify_condition_pkey primary key (rule, event, subject),
    constraint notify_condition_rule_fkey foreign key (rule) references taskq.notify_rule on delete cascade
);

-- What is told, once. figures: the numbers and words of its text. status: waiting; sent; given up.
create table taskq.notify_event (
    event_id uuid not null,
    rule text collate "C" not null,
    event text not null,
    subject text collate "C" not null,
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

-- The keepers that send, and what each can do: mail, webhook (to public addresses), webhook:NAME, command:NAME.
create table taskq.notify_sender (
    holder uuid not null,
    host text not null,
    reaches text[] not null,
    until timestamptz not null,
    constraint notify_sender_pkey primary key (holder),
    constraint notify_sender_host_length check (length(host) <= 200)
);

-- due_at: when conditions are looked at next.
create table taskq.notify_watch (
    only_one boolean not null default true,
    due_at timestamptz not null,
    constraint notify_watch_pkey primary key (only_one),
    constraint notify_watch_only_one check (only_one)
);

insert into taskq.notify_watch (due_at) values ('-infinity');
