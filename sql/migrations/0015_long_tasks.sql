-- Tasks that last longer than the allocations of those who run them.
--
-- max_out_of_time: so many attempts may be handed back since their agents had no time left; the last
-- of them fails the task as too-long. See functions/too_long.sql.

alter table taskq.campaign
    add column max_out_of_time integer not null default 5,
    add constraint campaign_max_out_of_time_range check (max_out_of_time between 1 and 1000);
