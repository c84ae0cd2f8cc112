-- Refusals: what cannot be run where, and why agents have left.
--
-- A node that lacks a campaign's program, or on which its `prepare` fails, refuses that campaign: the task
-- goes back, counted neither as failure nor as loss, and the agent serves other campaigns meanwhile.

-- Their results have columns more.
drop function if exists taskq.servable(text, double precision, text[], integer);
drop function if exists taskq.standing(text);

-- In the order in which exchanges come to them: a queue may be at work meanwhile.
lock table taskq.session, taskq.attempt in access exclusive mode;

-- left_why, exit_code: of an agent that has said why it goes, with the code of its process; null: it
-- has not, or is there.
alter table taskq.session
    add column left_why text,
    add column exit_code integer,
    add constraint session_left_why_length check (length(left_why) <= 2000);

-- refused: the attempt was handed back because the node cannot run such tasks; null: it was not.
alter table taskq.attempt
    add column refused boolean;

-- Which agents could not run a campaign, since it was last opened or changed. times: how often since
-- anybody has succeeded, attempts that ran side by side counting once; claimed_at, last_at, error_class,
-- error: of the last one. See functions/pause_refused.sql.
create table taskq.refusal (
    campaign_id bigint not null,
    session_id bigint not null,
    times integer not null default 1,
    claimed_at timestamptz not null,
    last_at timestamptz not null,
    error_class text,
    error text,
    constraint refusal_pkey primary key (campaign_id, session_id)
);

create index refusal_last_at on taskq.refusal (last_at);

-- The campaigns that were ever refused. done: how many tasks were, when the keeper last looked; null:
-- it has not, since the campaign was opened or changed.
create table taskq.refused (
    campaign_id bigint not null,
    done bigint,
    constraint refused_pkey primary key (campaign_id)
);
