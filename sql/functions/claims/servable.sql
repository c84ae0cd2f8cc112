-- servable(path, lifetime_s, offers, most): the campaigns at and below a path in which an agent can
-- claim, in the order in which it should try them.
--
-- lifetime_s: leave out campaigns whose time limit is longer; null: none. offers: the agent's tags;
--     leave out campaigns that require others. most: how many at most.
-- desire: see below. revision: the campaign's. Result: campaigns that are open with all above them, have a
--     handler and waiting tasks, and run fewer tasks than they may. Error TQ404: no such campaign.
--
-- Each call draws the order again, so that weights divide the *running* tasks:
--
-- Let W be the tasks running in these campaigns. With one more, campaign i is entitled to its share
-- of W + 1, w_i / sum(w) * (W + 1), and desires what it lacks of that. The order is a weighted
-- random sample without replacement by these desires: ascending in -ln(u) / desire, u uniform
-- (Efraimidis and Spirakis, Weighted random sampling with a reservoir, 2006).
--
-- Drawing by weight alone would share out claims, and a campaign of tasks ten times as long would run ten
-- times as many. Choosing the largest deficit would send all agents to one campaign, since thousands of them
-- see much the same counts for a second. So it is a lottery over deficits. A campaign that has its share
-- already keeps a hundredth of it as desire: it comes last, but it comes when no other gives tasks.
--
-- If shares are by owner, see share_by_owner(), this takes place twice: D_o is the desire of each owner, by the
-- weights of owners and the running tasks of their campaigns here; d_i is that of each campaign among those of its
-- owner; campaign i desires D_o * d_i / sum(d). Campaigns without an owner count as one owner's.
--
-- Volatile, by random(). Reads no task; for what it costs see unfinished_campaigns(). Index: quota_pkey.
-- @roles serving
-- @plan no-jit
create or replace function taskq.servable(
    p_path text,
    p_lifetime_s double precision,
    p_offers text[],
    p_most integer
)
returns table (campaign_id bigint, desire double precision, revision integer)
language plpgsql
as $$
begin
    perform taskq.campaign_id(p_path);
    if (select h.by_owner from taskq.sharing h) then
        return query
            with stood as materialized (
                select s.campaign_id, s.revision, s.weight, s.working, s.room + s.ahead as room,
                       s.time_limit_s, s.requires, coalesce(s.owner, '') as owner,
                       taskq.total(s.working) over (partition by s.owner) as owner_working
                  from taskq.unfinished_campaigns(p_path) s
            ), lack as materialized (
                select s.campaign_id, s.revision, s.owner, s.owner_working,
                       greatest(
                           s.weight / sum(s.weight) over own
                           * (taskq.total(s.working) over own + 1) - s.working,
                           0.01 * s.weight / sum(s.weight) over own) as desire
                  from stood s
                 where s.room > 0
                   and taskq.suits(s.time_limit_s, s.requires, p_lifetime_s, p_offers)
                window own as (partition by s.owner)
            ), part as (
                select l.owner, min(l.owner_working) as working, sum(l.desire) as lacking,
                       coalesce((select q.weight from taskq.quota q where q.owner = l.owner), 1)
                           as weight
                  from lack l
                 group by l.owner
            ), owner as materialized (
                select p.owner, p.lacking,
                       greatest(
                           p.weight / sum(p.weight) over ()
                           * (taskq.total(p.working) over () + 1) - p.working,
                           0.01 * p.weight / sum(p.weight) over ()) as desire
                  from part p
            )
            select l.campaign_id, l.desire / o.lacking * o.desire, l.revision
              from lack l
              join owner o on o.owner = l.owner
             order by -ln(1 - random()) / (l.desire / o.lacking * o.desire)
             limit p_most;
        return;
    end if;
    return query
        with share as (
            select s.campaign_id, s.revision, s.working, taskq.total(s.working) over () as all_working,
                   s.weight / sum(s.weight) over () as share
              from taskq.unfinished_campaigns(p_path) s
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
