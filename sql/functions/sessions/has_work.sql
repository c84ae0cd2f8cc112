-- has_work(session, campaign): whether a session works on tasks of a campaign (null: of any). A part of expire(),
-- end_sessions() and pause_refused(); not for clients.
--
-- It compares single values: `exists` may be planned as a join that walks all working tasks.
-- Index: task_working, bundle_pkey.
create or replace function taskq.has_work(p_session bigint, p_campaign bigint default null)
returns boolean
language plpgsql stable
as $$
begin
    return coalesce(
        (select true
           from taskq.bundle b
          where b.session_id = p_session
            and b.campaign_id = coalesce(p_campaign, b.campaign_id)
          limit 1),
        (select true
           from taskq.task t
          where t.session_id = p_session
            and t.status = 'working'
            and t.campaign_id = coalesce(p_campaign, t.campaign_id)
          limit 1),
        false);
end
$$;
