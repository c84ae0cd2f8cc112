-- heartbeat(session, held, pending, drawn): the heartbeat of one session: renews it, and reconciles the
-- attempts that its agent holds. See beat(), which does this for many sessions.
--
-- held: JSON array of {"campaign", "task", "lease"}, all attempts that the agent holds; null: only renew the
--     session. pending: lease ids of claims whose answer the agent still waits for. drawn: the newest
--     lease id that the agent had drawn when it made this heartbeat; its lease ids rise.
-- Result: those of `held` whose lease is no longer valid: expired, cancelled, handed on. The agent
--     stops them.
-- Error TQ410: the session has ended.
-- @roles agent
create or replace function taskq.heartbeat(
    p_session bigint,
    p_held jsonb default null,
    p_pending uuid[] default '{}',
    p_drawn uuid default null
)
returns table (campaign_id bigint, task_id bigint, lease_id uuid)
language plpgsql
as $$
declare
    v_ended boolean;
    v_stop jsonb;
begin
    select b.ended, b.stop into v_ended, v_stop
      from taskq.beat(jsonb_build_array(jsonb_build_object(
               'session', p_session, 'held', p_held, 'pending', p_pending, 'drawn', p_drawn))) b;
    if v_ended then
        raise exception 'session % has ended; open another', p_session using errcode = 'TQ410';
    end if;
    return query
        select (s ->> 0)::bigint, (s ->> 1)::bigint, (s ->> 2)::uuid
          from jsonb_array_elements(v_stop) s;
end
$$;
