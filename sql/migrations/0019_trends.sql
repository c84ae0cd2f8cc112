-- Trends: how campaigns went, a point a minute, farther apart with age.
--
-- A point has the counts of a campaign with all below it, at the end of a minute since 1970, so that a
-- rate is a difference and points can be left out anywhere. done, failed: tasks; failures: attempts that
-- failed or were lost, since the campaign exists. agents: open sessions that serve it, above or below.
-- Bounded to some 20 MB, whatever happens: see functions/record_trends.sql and thin_trends.sql.
create table taskq.trend (
    campaign_id bigint not null,
    done bigint not null,
    failed bigint not null,
    failures bigint not null,
    unfinished bigint not null,
    minute integer not null,
    working integer not null,
    agents integer not null,
    constraint trend_pkey primary key (campaign_id, minute)
)
-- A thousand points come each minute, and go with the tenth: what they leave is taken again soon.
with (autovacuum_vacuum_scale_factor = 0.05);
