-- drain_sessions(path, sites, agents, hosts, dry_run): drains agents: they claim no more, and leave when the
-- attempts that they hold have ended.
--
-- path: of agents that serve this campaign or one below it. sites, agents, hosts: only agents of one of
--     these sites, of these names, on these hosts; null: of any.
-- dry_run: change nothing.
-- Result: how many were not draining before. Agents get the order with the answer to their next
--     heartbeat.
-- Error TQ404: no such campaign.
--
-- Locks: the sessions, in their order. Index: session_open.
-- @roles operator
-- @gateway no
-- @act drain
create or replace function taskq.drain_sessions(
    p_path text,
    p_sites text[] default null,
    p_agents text[] default null,
    p_hosts text[] default null,
    p_dry_run boolean default false
)
returns integer
language plpgsql
as $$
declare
    v_drained integer;
begin
    perform taskq.campaign_id(p_path);
    v_drained := taskq.drain_found(p_path, p_sites, p_agents, p_hosts, p_dry_run);
    if v_drained > 0 and not p_dry_run then
        perform taskq.note_act(
            p_path, 'drain', array_remove(array[
                'sites ' || array_to_string(p_sites[:20], ', '),
                'hosts ' || array_to_string(p_hosts[:20], ', '),
                'agents ' || array_to_string(p_agents[:20], ', '),
                v_drained || ' drained'], null));
    end if;
    return v_drained;
end
$$;
