-- last_attempts(campaign, tasks): the last ended attempt of each of some tasks; no row: it has none.
--
-- Reads an attempt for each task. Plans: see tasks(). Index: attempt_pkey, session_pkey.
-- @roles reader
-- @standby yes
-- @gateway manager
-- @plan generic by-key
create or replace function taskq.last_attempts(p_campaign bigint, p_tasks bigint[])
returns table (task_id bigint, host text, ended_at timestamptz, error_class text)
language plpgsql stable
as $$
begin
    return query
        select k.task_id, n.host, a.ended_at, a.error_class
          from unnest(p_tasks) as k (task_id)
         cross join lateral (
             select a.session_id, a.ended_at, a.error_class
               from taskq.attempt a
              where a.campaign_id = p_campaign
                and a.task_id = k.task_id
              order by a.campaign_id desc, a.task_id desc, a.attempt desc
              limit 1
         ) a
         cross join lateral taskq.session_of(a.session_id) n;
end
$$;
