-- What a refusal says: that the campaign as it is cannot be run, not as it was before a change; and that an
-- agent leaves it out ever longer, though others may succeed with it.
--
-- refusal.pauses: how often an agent has refused a campaign one time after the other, whoever has succeeded
-- meanwhile; see functions/note_refusals.sql.
-- refused.since: when the campaign was last changed, or opened again; null: not since this is written down.
-- A row is there for each campaign that was ever refused, changed or opened again.

-- In the order in which exchanges come to them: a queue may be at work meanwhile.
lock table taskq.refused, taskq.refusal in access exclusive mode;

alter table taskq.refused
    add column since timestamptz;

alter table taskq.refusal
    add column pauses integer not null default 1;

update taskq.refusal set pauses = times where times > 1;
