-- Shares: how agents that serve many campaigns divide themselves among them; sums of deltas; and
-- what exchange() returns.
--
-- weight: the campaign's share of the running tasks, in relation to its neighbours'. requires: tags
-- that an agent must offer, max_running: how many tasks may be working at a time; null: any number.
-- offers: the tags of an agent. See functions/servable.sql and functions/offered.sql.

alter table taskq.campaign
    add column weight double precision not null default 1,
    add column requires text[] not null default '{}',
    add column max_running integer,
    add constraint campaign_weight_range check (weight > 0 and weight <= 1000),
    add constraint campaign_max_running_range check (max_running between 1 and 1000000);

-- The few campaigns that keep what is below them from being served.
create index campaign_closed on taskq.campaign (path) where status <> 'open';

alter table taskq.session
    add column offers text[] not null default '{}';

-- since: of a sum of deltas, when the first of them was summed up; see functions/fold.sql.
alter table taskq.delta
    add column since timestamptz;

-- Its result `tasks` was jsonb and is json, which costs half as much to make.
drop function if exists taskq.exchange(bigint, jsonb, bigint[], uuid[], integer[]);
