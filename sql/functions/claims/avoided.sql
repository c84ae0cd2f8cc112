-- avoided(campaign, sessions): which of some sessions must leave some waiting tasks to others for now: tasks that
-- avoid the session's host, or tasks that were lost, while the session works on others that were lost; see
-- pick_again(). A part of take(), which pins the settings; not for clients.
--
-- Looks at 1,000 such tasks at most, once for all sessions. Result: null if there is no such session.
-- Index: task_waiting_again, session_pkey, session_host.
create or replace function taskq.avoided(p_campaign bigint, p_sessions bigint[])
returns bigint[]
language plpgsql stable
as $$
declare
    v_walk constant integer := 1000;
    v_now constant timestamptz := clock_timestamp();
    v_attempts integer;
    v_last integer;
    v_serving integer[];
    v_hosts integer[];
    v_lost boolean;
begin
    if not exists (
        select from taskq.task t
         where t.campaign_id = p_campaign
           and t.status = 'waiting'
           and t.avoids is not null
    ) then
        return null;
    end if;
    select c.max_attempts, least(c.max_losses, c.max_lost_hosts) - 1 into v_attempts, v_last
      from taskq.campaign c
     where c.campaign_id = p_campaign;
    v_serving := taskq.hosts_serving(p_campaign, least(v_attempts + v_last + 1, 17));
    select array_agg(distinct a.host) filter (
               where taskq.must_avoid(w.avoids, w.due_at, w.failures, v_attempts, v_serving, v_now)),
           bool_or(w.losses > 0)
      into v_hosts, v_lost
      from (
          select t.avoids, t.due_at, t.failures, t.losses
            from taskq.task t
           where t.campaign_id = p_campaign
             and t.status = 'waiting'
             and t.avoids is not null
           order by t.campaign_id, (-t.priority), t.task_id
           limit v_walk
      ) w
      left join lateral unnest(w.avoids) as a (host) on true;
    return (
        select array_agg(e.session_id)
          from unnest(p_sessions) as e (session_id)
         where (select hashtext(s.host)
                  from taskq.session s
                 where s.session_id = e.session_id) = any (v_hosts)
            or v_lost and exists (
                   select from taskq.task t
                    where t.session_id = e.session_id
                      and t.status = 'working'
                      and t.losses > 0));
end
$$;
