-- all_have_left(at): whether all agents and keepers that an embedded server had at an instant are gone. A part of
-- note_serving(); not for clients.
--
-- Each agent with a connection of its own is a keeper too. All clients of an embedded server are processes of its
-- machine, so those that were suspended with it are connected still, and those that were killed are not. False where
-- that is not known: on other servers, and of agents of gateways.
-- Index: session_open.
create or replace function taskq.all_have_left(p_at timestamptz)
returns boolean
language plpgsql
as $$
begin
    return current_setting('taskq.embedded', true) is not distinct from 'on'
       and current_setting('listen_addresses') = ''
       and not exists (select from taskq.session s where s.ended_at is null and s.token_id is not null)
       and not exists (
           select
             from pg_stat_activity a
            where a.datname = current_database()
              and a.application_name = 'taskq keeper'
              and coalesce(a.backend_start, '-infinity') < p_at);
end
$$;
