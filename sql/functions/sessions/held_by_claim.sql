-- held_by_claim(session, campaign, lease): the tasks of a campaign that a session works on under the lease of a
-- claim. A part of beat(), which pins the settings; not for clients.
--
-- Index: task_working, bundle_pkey: in forms that no other index answers.
create or replace function taskq.held_by_claim(p_session bigint, p_campaign bigint, p_lease uuid)
returns setof bigint
language plpgsql stable
as $$
begin
    return query
        select t.task_id
          from taskq.task t
         where t.session_id = p_session
           and t.lease_id = p_lease
           and t.status = 'working'
           and t.campaign_id is not distinct from p_campaign
        union all
        select k.task_id
          from taskq.bundle b
         cross join lateral unnest(b.tasks) as k (task_id)
         where b.session_id = p_session
           and b.lease_id = p_lease
           and b.campaign_id is not distinct from p_campaign;
end
$$;
