-- What attempts tell while they run: how far they are, and the end of their output where somebody follows
-- it. Nothing depends on it, so it is not logged: a crash or a failover empties both tables, a standby has
-- none of it, and agents say it again with their next heartbeats.

-- These return more than before.
drop function if exists taskq.beat(jsonb);
drop function if exists taskq.stand(bigint, bigint);
drop function if exists taskq.tasks(bigint, taskq.task_status, bigint, integer);
drop function if exists taskq.find_tasks(
    bigint, jsonpath, jsonb, text[], text[], boolean, bigint, integer);


-- How far attempts are, of those that say so. One of another lease than the task's is of an attempt that has
-- ended; it counts no more and goes at its time, see functions/forget_progress.sql. until: when, unless it is
-- said again.
create unlogged table taskq.progress (
    campaign_id bigint not null,
    task_id bigint not null,
    lease_id uuid not null,
    fraction double precision,
    note text not null,
    until timestamptz not null,
    constraint progress_pkey primary key (campaign_id, task_id, lease_id)
)
with (fillfactor = 50);


-- Who follows the output of a task; a row for each asker, so that none can keep another waiting.
-- asker: a login, or a token. asked_at: when it has last asked; half a minute later it follows no more.
-- session_id, lease_id: of the attempt that ran then; null: none. output: the last of its bytes, of `written`
-- in all; null: its agent has sent none yet.
create unlogged table taskq.followed (
    campaign_id bigint not null,
    task_id bigint not null,
    asker text not null,
    asked_at timestamptz not null,
    session_id bigint,
    lease_id uuid,
    written bigint,
    output bytea,
    constraint followed_pkey primary key (campaign_id, task_id, asker)
)
with (fillfactor = 50);
