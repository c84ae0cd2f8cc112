-- losses_seen(campaign, task, attempt, session, losses): the hosts on which agents of a task were lost:
-- that of the attempt that is being given up, and those of the `losses` before it.
-- A part of give_back(); not for clients.
--
-- hosts: how many different ones, by the names that agents give.
-- seen: the same as text, with the first ten hosts and the first twenty attempts.
--
-- Index: attempt_pkey, session_pkey.
create or replace function taskq.losses_seen(
    p_campaign bigint,
    p_task bigint,
    p_attempt integer,
    p_session bigint,
    p_losses integer,
    out hosts integer,
    out seen text
)
language plpgsql stable
as $$
declare
    v_attempts integer[];
    v_hosts text[];
begin
    with lost as materialized (
        select p_attempt as attempt, p_session as session_id
        union all
        (select a.attempt, a.session_id
           from taskq.attempt a
          where a.campaign_id = p_campaign
            and a.task_id = p_task
            and a.attempt < p_attempt
            and a.outcome::text = 'lost'
          order by a.attempt desc
          limit p_losses)
    ), located as materialized (
        select l.attempt,
               (select coalesce(nullif(s.host, ''), '(unnamed)')
                  from taskq.session s
                 where s.session_id = l.session_id) as host
          from lost l
    )
    select array(select l.attempt from located l order by l.attempt),
           array(select l.host from located l group by l.host order by min(l.attempt))
      into v_attempts, v_hosts;
    hosts := cardinality(v_hosts);
    seen := format(
        'agents lost on %s %s: %s (%s %s)',
        hosts, case when hosts = 1 then 'host' else 'hosts' end,
        array_to_string(v_hosts[1:10], ', ')
        || case when hosts > 10 then format(' and %s more', hosts - 10) else '' end,
        case when cardinality(v_attempts) = 1 then 'attempt' else 'attempts' end,
        array_to_string(v_attempts[1:20], ', ')
        || case when cardinality(v_attempts) > 20
                then format(' and %s more', cardinality(v_attempts) - 20) else '' end);
end
$$;
