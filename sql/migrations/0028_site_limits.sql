-- How many tasks of a campaign may run at each site: see functions/site_room.sql.
--
-- max_running_per_site: null: any number. Where it is set, max_running is not null either, beyond all that can
-- run where nothing else limits it: claims of such campaigns go the way of a limit, and those of others are the
-- statements that they were.

-- It is kept where it is computed: only servers from 17 on can change how.
alter table taskq.campaign drop column max_running;
alter table taskq.campaign
    add column max_running_per_site integer,
    add column max_running integer
        generated always as (
            least(running_limit, running_quota,
                  case when max_running_per_site is not null then 1000000000 end)) stored,
    add constraint campaign_max_running_per_site_range check (max_running_per_site between 1 and 20000),
    add constraint campaign_hedge_unlimited_per_site check (hedge is null or max_running_per_site is null);

-- The claims of agents at a site, in campaigns that limit how many tasks run there. tasks: how many of them work
-- at most; those that have ended are found and forgotten by later claims.
create table taskq.site_claim (
    campaign_id bigint not null,
    session_id bigint not null,
    lease_id uuid not null,
    site text collate "C" not null,
    tasks integer not null,
    constraint site_claim_pkey primary key (campaign_id, session_id, lease_id)
)
with (
    autovacuum_vacuum_scale_factor = 0.1,
    autovacuum_vacuum_threshold = 1000
);

-- By a hash, so that a walk may begin anywhere: lease ids are drawn in order of time.
create index site_claim_site on taskq.site_claim (campaign_id, site, uuid_hash(lease_id));
