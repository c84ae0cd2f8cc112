-- is_suspended(agent): whether the batch system says that an agent's job is suspended; false of agents that no
-- pilot has started. A part of expire(), which pins the settings; not for clients.
--
-- Index: pilot_job_pkey.
create or replace function taskq.is_suspended(p_agent text)
returns boolean
language sql stable
as $$
    select p_agent like 'taskq-%'
       and exists (
           select from taskq.pilot p, taskq.pilot_job j
            where p.key = substring(p_agent from '-([0-9a-f]{8})-[0-9]{1,9}$')
              and j.pilot_id = p.pilot_id
              and j.number = substring(p_agent from '[0-9]{1,9}$')::integer
              and j.status = 'running'
              and j.why like 'SUSPENDED%')
$$;
