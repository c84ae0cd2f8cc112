-- in_hand_covered(session): how many tasks a session works on in the campaigns that a manager's token is for.
-- Index: those of in_hand(), campaign_pkey.
-- @roles reader
-- @standby no
-- @gateway no
create or replace function taskq.in_hand_covered(p_session bigint)
returns bigint
language plpgsql stable
as $$
begin
    return (
        select taskq.total(h.tasks)
          from (
              select h.campaign_id, taskq.total(h.tasks) as tasks
                from (
                    select t.campaign_id, 1 as tasks
                      from taskq.task t
                     where t.session_id = p_session
                       and t.status = 'working'
                     union all
                    select b.campaign_id, cardinality(b.tasks)
                      from taskq.bundle b
                     where b.session_id = p_session
                ) h
               group by h.campaign_id
          ) h
         cross join lateral taskq.campaign_of(h.campaign_id) c
         where taskq.token_covers(c.path));
end
$$;
