-- avoiding(avoids, campaign, task, attempt): the hosts on which a task has failed, with the host of this
-- attempt, whose failure is recorded: hashes of the last sixteen names, the latest last. A part of settle();
-- not for clients.
--
-- avoids: the value before; null: no host. Index: attempt_pkey, session_pkey.
create or replace function taskq.avoiding(
    p_avoids integer[],
    p_campaign bigint,
    p_task bigint,
    p_attempt integer
)
returns integer[]
language plpgsql stable
as $$
declare
    v_host constant integer := (
        select hashtext(s.host)
          from taskq.attempt a, taskq.session s
         where a.campaign_id = p_campaign
           and a.task_id = p_task
           and a.attempt = p_attempt
           and s.session_id = a.session_id);
    v_avoids constant integer[] := array_remove(coalesce(p_avoids, '{}'), v_host) || v_host;
begin
    if v_host is null then
        return p_avoids;
    end if;
    return v_avoids[greatest(1, cardinality(v_avoids) - 15) :];
end
$$;
