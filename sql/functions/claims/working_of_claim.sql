-- working_of_claim(campaign, session, lease): how many tasks of a claim still run, by some look-ups by key; inlined, see
-- session_of(). A part of kept_claims(), limits() and beat(); not for
-- clients.
--
-- Index: task_working, bundle_pkey. The campaign is compared in a way that no index answers: for the planner,
-- a campaign that was seeded a moment ago has one task, see settle().
create or replace function taskq.working_of_claim(p_campaign bigint, p_session bigint, p_lease uuid)
returns table (working bigint)
language sql stable
as $$
    select (select count(*)
              from taskq.task t
             where t.session_id = p_session
               and t.lease_id = p_lease
               and t.status = 'working'
               and t.campaign_id is not distinct from p_campaign)
           + (select coalesce(sum(cardinality(b.tasks)), 0)::bigint
                from taskq.bundle b
               where b.session_id = p_session
                 and b.lease_id = p_lease
                 and b.campaign_id is not distinct from p_campaign)
    offset 0
$$;
