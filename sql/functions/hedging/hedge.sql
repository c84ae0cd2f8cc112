-- hedge(): lets idle agents make second attempts of tasks that take far longer than others, in campaigns that
-- ask for it and in which nothing waits any more. Called by the keeper.
--
-- Result: how many tasks got one.
--
-- A second attempt is made only
--     of a task that was not hedged before, and that one more failure would not fail: see hedge_task();
--     if the first is slow compared with others, see slow_after(): those that began first come first;
--     if an agent that suits the campaign is idle on another host, see idle_agents();
--     while fewer tasks of the campaign have had one than it allows.
-- While a second attempt waits to be claimed, agents that could claim it get no further ones.
--
-- A call allows at most 64, and looks at 64 campaigns. It calls idle_agents(), slow_after() and slow_attempts() only
-- for campaigns at their end.
--
-- Locks: those of hedge_task(). Index: those of the functions that it calls.
-- @plan generic by-key
create or replace function taskq.hedge()
returns integer
language plpgsql
as $$
declare
    v_most constant integer := 64;
    v_ending constant jsonb := (select jsonb_agg(to_jsonb(e)) from taskq.ending_campaigns(v_most) e);
    v_idle jsonb;
    v_campaign record;
    v_slow record;
    v_place integer;
    v_hedged integer := 0;
begin
    if v_ending is null then
        return 0;
    end if;
    v_idle := (
        select jsonb_agg(to_jsonb(k))
          from taskq.idle_agents(array(
              select distinct l.campaign_id
                from jsonb_to_recordset(v_ending) as e (lineage bigint[])
               cross join lateral unnest(e.lineage) as l (campaign_id))) k);
    if v_idle is null then
        return 0;
    end if;

    for v_campaign in
        select e.campaign_id, e.lineage, e.requires, e.room, taskq.slow_after(e.campaign_id) as after_s
          from jsonb_to_recordset(v_ending)
               as e (campaign_id bigint, lineage bigint[], requires text[], room bigint)
         order by random()
    loop
        for v_slow in
            select s.task_id, s.lease_id, s.host, s.run_s
              from taskq.slow_attempts(
                  v_campaign.campaign_id, v_campaign.after_s,
                  least(v_campaign.room, v_most - v_hedged)) s
        loop
            select k.place - 1 into v_place
              from rows from (
                       jsonb_to_recordset(v_idle) as (
                           scope bigint, offers text[], slots bigint, first_host text, last_host text)
                   ) with ordinality as k (scope, offers, slots, first_host, last_host, place)
             where k.slots > 0
               and k.scope = any (v_campaign.lineage)
               and taskq.suits(null, v_campaign.requires, null, k.offers)
               and (k.first_host <> v_slow.host or k.last_host <> v_slow.host)
             limit 1;
            if found and taskq.hedge_task(
                v_campaign.campaign_id, v_slow.task_id, v_slow.lease_id,
                format('at work for %s s; nine of ten of the latest took %s s at most',
                       round(v_slow.run_s), round(v_campaign.after_s / 2)))
            then
                v_hedged := v_hedged + 1;
                v_idle := jsonb_set(
                    v_idle, array[v_place::text, 'slots'],
                    to_jsonb((v_idle -> v_place ->> 'slots')::bigint - 1));
            end if;
        end loop;
    end loop;
    return v_hedged;
end
$$;
