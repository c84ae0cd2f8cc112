-- is_suspended(agent): whether the batch system says that an agent's job is suspended; false of agents that no
-- pilot has started. A part of expire(), which pins the settings; not for clients.
--
-- Index: pilot_job_name_key.
create or replace function taskq.is_suspended(p_agent text)
returns boolean
language sql stable
as $$
    select exists (
        select from taskq.pilot_job j
         where j.name = p_agent
           and j.status = 'running'
           and j.why like 'SUSPENDED%')
$$;
