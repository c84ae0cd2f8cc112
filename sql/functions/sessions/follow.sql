-- follow(campaign, task): the output of a task's running attempt, as its agent sent it last. It also asks the
-- agent to send it for half a minute, so a follower calls it every few seconds.
--
-- Result: one row, none if there is no such task: status and attempt, as tasks() has them; host: where it
--     runs; written: how many bytes of output the attempt has written, null: its agent has not reported yet;
--     output: the last 8 KiB of them, in base64.
-- Error TQ409: the caller follows 8 tasks already, or all together 64.
--
-- The caller is a login, or the token that permit() has accepted in this transaction.
--
-- Locks: the caller's own rows. Index: that of task_state(), session_pkey, followed_pkey. Plans: see tasks().
-- @roles reader
-- @standby no
-- @gateway manager
-- @repeat safe
-- @plan generic by-key
create or replace function taskq.follow(p_campaign bigint, p_task bigint)
returns table (
    status taskq.task_status,
    attempt integer,
    host text,
    written bigint,
    output text
)
language plpgsql
as $$
declare
    v_now constant timestamptz := clock_timestamp();
    v_asker constant text := coalesce('token ' || taskq.token_setting('token_id'), 'login ' || session_user);
    v_rows bigint;
    v_own bigint;
    v_session bigint;
    v_lease uuid;
begin
    select t.status, t.attempt, t.session_id, t.lease_id into status, attempt, v_session, v_lease
      from taskq.task_state(p_campaign, p_task) t;
    if status is null then
        return;
    end if;
    if v_session is not null then
        select s.host into host from taskq.session s where s.session_id = v_session;
    end if;
    if status in ('waiting', 'delayed', 'working') then
        update taskq.followed f
           set asked_at = v_now,
               session_id = v_session,
               lease_id = v_lease,
               written = case when f.lease_id = v_lease then f.written end,
               output = case when f.lease_id = v_lease then f.output end
         where f.campaign_id = p_campaign
           and f.task_id = p_task
           and f.asker = v_asker
           and f.asked_at > v_now - interval '30 s'
     returning f.written, encode(f.output, 'base64') into written, output;
        if not found then
            select count(*), count(*) filter (where f.asker = v_asker) into v_rows, v_own
              from taskq.followed f
             where f.asked_at > v_now - interval '30 s';
            if v_rows >= 64 or v_own >= 8 then
                raise exception 'the output of % tasks is followed already; try again in a minute',
                    case when v_own >= 8 then v_own else v_rows end using errcode = 'TQ409';
            end if;
            delete from taskq.followed f
             where f.asker = v_asker
               and f.asked_at <= v_now - interval '30 s';
            insert into taskq.followed (campaign_id, task_id, asker, asked_at, session_id, lease_id)
            values (p_campaign, p_task, v_asker, v_now, v_session, v_lease)
                -- The caller's other call has just done so.
                on conflict (campaign_id, task_id, asker) do update
               set asked_at = excluded.asked_at,
                   session_id = excluded.session_id,
                   lease_id = excluded.lease_id;
        end if;
    end if;
    return next;
end
$$;
