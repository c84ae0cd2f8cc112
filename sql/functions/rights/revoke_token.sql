-- revoke_token(name): revokes a token at once, and ends the sessions that it has opened.
--
-- sessions: how many of them were open, and have ended. attempts: how many attempts they had, which
--     are handed out again and count neither as failures nor as losses.
-- Idempotent. Error TQ404: there never was such a token.
--
-- No other operation needs to check the token: an ended session can neither send heartbeats nor claim,
-- and its leases are no longer valid. A claim or a report in progress may commit after this; tasks that
-- it leaves are handed out by the next round of upkeep, see expire().
--
-- Locks: the token's row, which waits for enrolments under way, so that none of them commits a session unseen
-- by this call; its sessions, in their order; the rows of their tasks, skipping locked ones. Index:
-- token_name, session_token, task_working.
-- @roles operator
-- @gateway no
-- @act token
-- @plan by-key
create or replace function taskq.revoke_token(
    p_name text,
    out sessions integer,
    out attempts integer
)
language plpgsql
as $$
declare
    v_token record;
    v_ended bigint[];
begin
    sessions := 0;
    attempts := 0;
    select t.token_id, t.kind, t.paths into v_token
      from taskq.token t
     where t.name = p_name
       and t.revoked_at is null
       for update;
    if not found then
        if not exists (select from taskq.token t where t.name = p_name) then
            raise exception 'no token %', p_name using errcode = 'TQ404';
        end if;
        return;
    end if;
    update taskq.token t
       set revoked_at = clock_timestamp()
     where t.token_id = v_token.token_id;

    with living as materialized (
        select s.session_id
          from taskq.session s
         where s.token_id = v_token.token_id
           and s.ended_at is null
         order by s.session_id
           for no key update
    ), ended as (
        update taskq.session s
           set ended_at = clock_timestamp()
          from living l
         where s.session_id = l.session_id
     returning s.session_id
    )
    select coalesce(array_agg(e.session_id), '{}') into v_ended from ended e;
    sessions := cardinality(v_ended);
    select coalesce(sum(taskq.give_back(e.session_id, 'released')), 0) into attempts
      from unnest(v_ended) as e (session_id);
    perform taskq.note_token(v_token.paths, array[p_name, v_token.kind::text, 'revoked']);
end
$$;
