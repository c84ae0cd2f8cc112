-- in_hand(session): how many tasks a session works on. Index: task_working, bundle_pkey.
-- @roles reader
-- @standby no
-- @gateway no
create or replace function taskq.in_hand(p_session bigint)
returns bigint
language plpgsql stable
as $$
begin
    return (
        select count(*)
          from taskq.task t
         where t.session_id = p_session
           and t.status = 'working')
        + (
        select coalesce(sum(cardinality(b.tasks)), 0)
          from taskq.bundle b
         where b.session_id = p_session);
end
$$;
