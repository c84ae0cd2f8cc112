-- servable(path, lifetime_s, offers, most): the campaigns at and below a path in which an agent can
-- claim, in the order in which it should try them.
--
-- lifetime_s: leave out campaigns whose time limit is longer; null: none. offers: the agent's tags;
--     leave out campaigns that require others. most: how many at most.
-- Result: ids of campaigns that are open with all above them, have a handler and waiting tasks, and
--     are below their limit of running tasks. Error TQ404: no such campaign.
--
-- The order is drawn anew by each call, so that weights divide the *running* tasks:
--
-- Let W be the tasks running in these campaigns. With one more, campaign i is entitled to its share
-- of W + 1, w_i / sum(w) * (W + 1), and desires what it lacks of that. The order is a weighted
-- random sample without replacement by these desires: ascending in -ln(u) / desire, u uniform
-- (Efraimidis and Spirakis, Weighted random sampling with a reservoir, 2006).
--
-- To draw by weight alone would share out claims, and a campaign of tasks ten times as long would
-- run ten times as many. To choose the largest deficit would send all agents to one campaign, as
-- thousands of them see much the same counts for a second; so it is a lottery over deficits. A
-- campaign that has its share already keeps a hundredth of it as desire: it comes last, but it comes
-- when no other gives tasks.
--
-- Volatile, by random(). Reads no task; for what it costs see counts().
-- Index: campaign_path_key, campaign_closed, counter_pkey, delta_xid.
--
-- The settings leave one plan: the counters are found by one pass over their ids (servers from 17 on
-- do that faster than one by one), all else is joined by hash.
create or replace function taskq.servable(
    p_path text,
    p_lifetime_s double precision,
    p_offers text[],
    p_most integer
)
returns table (campaign_id bigint)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_nestloop = off
set enable_mergejoin = off
set jit = off
as $$
declare
    v_top constant bigint := taskq.campaign_id(p_path);
    v_closed bigint[];
begin
    if taskq.state_of(v_top) <> 'open' then
        return;
    end if;

    select c.paused || c.cancelled into v_closed from taskq.closed(p_path) c;
    return query
        with eligible as materialized (
            select c.campaign_id, c.weight, c.max_running
              from taskq.subtree(p_path) c
             where c.status = 'open'
               and c.handler is not null
               and (p_lifetime_s is null or c.time_limit_s is null
                    or c.time_limit_s <= p_lifetime_s)
               and (cardinality(c.requires) = 0 or taskq.offered(c.requires, p_offers))
               and (c.lineage && v_closed) is not true
        ), fresh as (
            select d.campaign_id, taskq.total(d.waiting) as waiting,
                   taskq.total(d.working) as working
              from taskq.unfolded() d
             group by d.campaign_id
        ), standing as (
            select e.campaign_id, e.weight, n.working + coalesce(f.working, 0) as working
              from eligible e
              join taskq.counter n on n.campaign_id = e.campaign_id
              left join fresh f on f.campaign_id = e.campaign_id
             where n.campaign_id = any (array(select e.campaign_id from eligible e))
               and n.waiting + coalesce(f.waiting, 0) > 0
               and (e.max_running is null
                    or n.working + coalesce(f.working, 0) < e.max_running)
        ), share as (
            select s.campaign_id, s.working, taskq.total(s.working) over () as all_working,
                   s.weight / sum(s.weight) over () as share
              from standing s
        )
        select s.campaign_id
          from share s
         order by -ln(1 - random())
                  / greatest(s.share * (s.all_working + 1) - s.working, 0.01 * s.share)
         limit p_most;
end
$$;
