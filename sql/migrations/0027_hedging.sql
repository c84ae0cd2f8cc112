-- Second attempts of tasks that take far longer than others, at the end of a campaign: see functions/hedge.sql.
--
-- hedge: share of a campaign's tasks that may have one; null: none. What is hedged needs late results, and has
-- no limit of running tasks, since the first attempt goes on beside the second.
-- hedged: how many tasks have had one.
-- The outcome `hedged`: the attempt's lease was ended in favour of a second attempt; it went on, and a success
-- of it counts if it comes first.

drop function if exists taskq.keep(uuid, double precision);

alter type taskq.attempt_outcome add value 'hedged';

alter table taskq.campaign
    add column hedge double precision,
    add column hedged bigint not null default 0,
    add constraint campaign_hedge_range check (hedge > 0 and hedge <= 1),
    add constraint campaign_hedge_salvages check (hedge is null or late_results = 'salvage'),
    add constraint campaign_hedge_unlimited check (hedge is null or running_limit is null);

create index campaign_hedge on taskq.campaign (campaign_id) where hedge is not null;
