-- note_move(campaign, verb, tasks): notes that somebody has moved tasks of a campaign: adds them to what the same caller
-- has begun there or above within a minute, see begin_act() and set_status(), else notes an act of its own. A part of
-- cancel(), retry() and prioritise(), called last; not for clients.
--
-- A removal cancels what has not ended; that is in the act of begin_removal().
--
-- Locks: see note_act(). Index: campaign_pkey, act_path, stone_unfinished.
-- @plan by-key
create or replace function taskq.note_move(p_campaign bigint, p_verb text, p_tasks bigint)
returns void
language plpgsql
as $$
declare
    v_now constant timestamptz := clock_timestamp();
    v_who constant text := left(taskq.caller(), 200);
    v_pid constant integer := case when taskq.token_setting('token_name') is null then pg_backend_pid() end;
    v_lineage constant bigint[] := (select c.lineage from taskq.campaign_of(p_campaign) c);
    v_act bigint;
begin
    if p_tasks = 0
       or p_verb = 'cancel' and exists (
           select from taskq.stone s where s.campaign_id = any (v_lineage) and s.removed_at is null)
    then
        return;
    end if;
    select l.act_id into v_act
      from unnest(v_lineage) as n (campaign_id)
     cross join lateral taskq.campaign_of(n.campaign_id) c
     cross join lateral (
           select a.act_id, a.pid, a.ended_at
             from taskq.act a
            where a.path = c.path
              and a.verb = p_verb
              and a.who = v_who
            order by a.path desc, a.verb desc, a.who desc, a.act_id desc
            limit 1) l
     where l.pid is not distinct from v_pid
       and l.ended_at > v_now - interval '1 min'
     order by l.act_id desc
     limit 1;
    if not taskq.add_to_act(v_act, p_tasks) then
        perform taskq.note_act(c.path, p_verb, p_tasks => p_tasks) from taskq.campaign_of(p_campaign) c;
    end if;
end
$$;
