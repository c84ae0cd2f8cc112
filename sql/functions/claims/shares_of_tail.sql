-- shares_of_tail(campaign, sessions, wants): what claims get at most in a campaign of which many tasks have one start:
-- the waiting tasks divided by the slots of all agents that serve it, so that the last ones do not sit with one agent.
-- A part of take(), which pins the settings; not for clients.
--
-- Result: as `wants`, none of them larger; each at least 1, if it was.
--
-- A claim gets fewer than it wants only if slots exceed waiting / want, so the agents are counted only where
-- fewer tasks wait than 64 such claims take. Agents that do not name their host are not counted. It costs a look at each
-- agent that serves the campaign.
--
-- Index: campaign_pkey, counter_pkey, delta_xid, session_host, session_pkey.
create or replace function taskq.shares_of_tail(p_campaign bigint, p_sessions bigint[], p_wants integer[])
returns integer[]
language plpgsql
as $$
declare
    v_lineage bigint[];
    v_requires text[];
    v_waiting bigint;
    v_slots bigint;
begin
    select n.waiting + coalesce((
               select sum(d.waiting) from taskq.unfolded() d where d.campaign_id = p_campaign), 0)
      into v_waiting
      from taskq.counter n
     where n.campaign_id = p_campaign;
    if v_waiting >= 64 * (select max(w) from unnest(p_wants) w) then
        return p_wants;
    end if;
    select c.lineage, c.requires into v_lineage, v_requires
      from taskq.campaign c
     where c.campaign_id = p_campaign;
    select coalesce(sum(s.slots), 0) into v_slots
      from taskq.session s
     where s.campaign_id = any (v_lineage)
       and s.ended_at is null
       and s.host <> ''  -- so that session_host answers
       and not s.drain
       and (v_requires = '{}' or taskq.offered(v_requires, s.offers));
    return array(
        select least(e.want, greatest(1, ceil(v_waiting * s.slots / greatest(v_slots, s.slots)::numeric)))::integer
          from unnest(p_sessions, p_wants) with ordinality as e (session_id, want, ord)
          join taskq.session s on s.session_id = e.session_id
         order by e.ord);
end
$$;
