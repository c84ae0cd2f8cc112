-- held_of(session): the tasks that a session has now, a row for each task or bundle; inlined, see session_of(). A part of
-- other functions; not for clients. Index: task_working, bundle_pkey.
create or replace function taskq.held_of(p_session bigint)
returns table (tasks integer, campaign_id bigint, claimed_at timestamptz)
language sql stable
as $$
    select 1, t.campaign_id, t.claimed_at
      from taskq.task t
     where t.session_id = p_session
       and t.status = 'working'
     union all
    select cardinality(b.tasks), b.campaign_id, b.claimed_at
      from taskq.bundle b
     where b.session_id = p_session
    offset 0
$$;
