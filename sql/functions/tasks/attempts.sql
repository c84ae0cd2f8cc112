-- attempts(campaign, task): the attempts of a task that have ended, in order. recipe: see ran_recipe().
--
-- Plans: see tasks(). Index: attempt_pkey, session_pkey, recipe_pkey.
-- @roles reader
-- @standby yes
-- @gateway manager
-- @plan generic by-key
create or replace function taskq.attempts(p_campaign bigint, p_task bigint)
returns table (
    attempt integer,
    outcome taskq.attempt_outcome,
    claimed_at timestamptz,
    ended_at timestamptz,
    agent text,
    host text,
    site text,
    exit_code integer,
    error_class text,
    error text,
    phases jsonb,
    result jsonb,
    tail text,
    recipe integer
)
language plpgsql stable
as $$
declare
    v_since constant timestamptz := taskq.recipes_since(p_campaign);
begin
    return query
        select a.attempt, a.outcome, a.claimed_at, a.ended_at, n.agent, n.host, n.site, a.exit_code,
               a.error_class, a.error, a.phases, a.result, a.tail,
               taskq.ran_recipe(a.recipe, a.outcome, a.ended_at, v_since, taskq.reports_recipes(n.offers))
          from taskq.attempt a
         cross join lateral taskq.session_of(a.session_id) n
         where a.campaign_id = p_campaign
           and a.task_id = p_task
         order by a.campaign_id, a.task_id, a.attempt;
end
$$;
