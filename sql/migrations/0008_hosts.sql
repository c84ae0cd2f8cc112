-- What is known of hosts: where a task has failed, so that it is tried elsewhere; how the first attempts
-- of each agent have ended, so that a host on which more fails than on others is slowed down; and how many
-- first attempts of a campaign have failed.
--
-- task.avoids: hashes of the names of the hosts on which attempts failed, the last one last; null: none.
-- session.tally: JSON array of [campaign, done, failed] as the last beat has told, see functions/beat.sql.
-- session.suspect: why its host is slowed, see functions/judge_hosts.sql; null: it is not.
-- first_failures: of the failures, those of first attempts; counted from here on, see functions/pulse.sql.

-- Their results have columns more.
drop function if exists taskq.keep(uuid, double precision);
drop function if exists taskq.beat(jsonb);
drop function if exists taskq.pick(bigint, integer, integer, boolean);
drop function if exists taskq.settle(bigint, jsonb);

-- In the order in which exchanges come to them: a queue may be at work meanwhile.
lock table taskq.campaign, taskq.task, taskq.session in access exclusive mode;

alter table taskq.task
    add column avoids integer[];

-- Tasks that have failed before wait in an index of their own, so that whoever may not have them need
-- not walk over them to those that nobody has tried.
drop index taskq.task_waiting;

create index task_waiting on taskq.task (campaign_id, (-priority), task_id)
    where status = 'waiting' and avoids is null;

create index task_waiting_again on taskq.task (campaign_id, (-priority), task_id)
    where status = 'waiting' and avoids is not null;

alter table taskq.session
    add column tally jsonb,
    add column suspect text,
    add constraint session_tally_array check (
        jsonb_typeof(tally) = 'array' and octet_length(tally::text) <= 4000);

-- The hosts that serve a campaign, one after the other. Its predicate is one that no other statement implies: without statistics, what looks for an open
-- session by its number or token would go through it.
create index session_host on taskq.session (campaign_id, host) where ended_at is null and host <> '';

alter table taskq.counter
    add column first_failures bigint not null default 0;

alter table taskq.delta
    add column first_failures integer not null default 0;

-- What the windows began with was counted otherwise.
delete from taskq.pulse;
