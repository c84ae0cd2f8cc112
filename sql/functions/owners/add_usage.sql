-- add_usage(ends): adds sums of attempts to `usage`. A part of add_ends(); not for clients.
--
-- A campaign has 64 sites in an hour; what ran at others counts as `others`. An agent without a token names its site.
-- What a campaign used that is gone is lost; those that change attempts add them before the campaign can go.
--
-- Locks and index: those of add_used(), campaign_pkey, session_pkey.
-- @plan by-one-key
create or replace function taskq.add_usage(p_ends taskq.ends[])
returns void
language plpgsql
as $$
declare
    v_most constant integer := 64;
begin
    perform taskq.add_used(array(
        with named as materialized (
            select c.path, e.hour, e.campaign_id, coalesce(c.owner, '') as owner, coalesce(n.site, '') as site,
                   e.outcome, taskq.total(e.attempts) as attempts, taskq.total(e.run_ms) as run_ms,
                   taskq.total(e.run_ms * coalesce(taskq.cores_of(n.offers), 1)) as core_ms,
                   taskq.total(round(e.run_ms * coalesce(c.gpus, 0))::bigint) as gpu_ms
              from (
                  select e.campaign_id, e.session_id, date_trunc('hour', e.since, 'UTC') as hour,
                         case e.outcome when 'refused' then 'released' else e.outcome end as outcome,
                         e.attempts, e.run_ms
                    from unnest(p_ends) as e
              ) e
             cross join lateral taskq.campaign_of(e.campaign_id) c
              left join lateral taskq.session_of(e.session_id) n on true
             group by c.path, e.hour, e.campaign_id, c.owner, n.site, e.outcome
        ), known as materialized (
            select d.path, d.hour,
                   array(select distinct u.site
                           from taskq.usage u
                          where u.path = d.path
                            and u.grain = 'hour'
                            and u.since = d.hour) as sites
              from (select distinct n.path, n.hour from named n) d
        ), placed as (
            select n.*, k.sites, n.site = any (k.sites) as is_known,
                   dense_rank() over (
                       partition by n.path, n.hour, n.site = any (k.sites) order by n.site) as place
              from named n
              join known k on k.path = n.path and k.hour = n.hour
        )
        select (p.path, 'hour', p.hour, p.campaign_id, p.owner,
                case when p.is_known or cardinality(p.sites) + p.place < v_most then p.site else 'others' end,
                p.outcome, p.attempts, p.run_ms, p.core_ms, p.gpu_ms)::taskq.usage
          from placed p));
end
$$;
