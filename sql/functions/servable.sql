-- servable(path, lifetime_s, offers, most): the campaigns at and below a path in which an agent can
-- claim, in the order in which it should try them.
--
-- lifetime_s: leave out campaigns whose time limit is longer; null: none. offers: the agent's tags;
--     leave out campaigns that require others. most: how many at most.
-- desire: see below. revision: the campaign's. Result: campaigns that are open with all above them, have a handler and waiting tasks, and
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
-- Volatile, by random(). Reads no task; for what it costs see standing().
create or replace function taskq.servable(
    p_path text,
    p_lifetime_s double precision,
    p_offers text[],
    p_most integer
)
returns table (campaign_id bigint, desire double precision, revision integer)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
begin
    perform taskq.campaign_id(p_path);
    return query
        with share as (
            select s.campaign_id, s.revision, s.working, taskq.total(s.working) over () as all_working,
                   s.weight / sum(s.weight) over () as share
              from taskq.standing(p_path) s
             where s.room + s.ahead > 0
               and taskq.suits(s.time_limit_s, s.requires, p_lifetime_s, p_offers)
        )
        select s.campaign_id, d.desire, s.revision
          from share s
         cross join lateral (
             select greatest(s.share * (s.all_working + 1) - s.working, 0.01 * s.share) as desire
         ) d
         order by -ln(1 - random()) / d.desire
         limit p_most;
end
$$;
