-- ran_recipe(recipe, outcome, ended_at, since, reports): the recipe that an ended attempt ran; null: nobody knows.
--
-- recipe, outcome, ended_at: of the attempt. since: see recipes_since(). reports: see reports_recipes(), of its agent.
--
-- A stored null is the first recipe if the campaign had no other yet, or if the attempt's agent reports recipes and
-- has reported how it ended. An agent before protocol 3 may have run any. Of an attempt that the server ended, such
-- as a lost one, nobody has said what it ran. It is inlined into statements, which then find out about agents only
-- where that decides.
create or replace function taskq.ran_recipe(
    p_recipe integer,
    p_outcome taskq.attempt_outcome,
    p_ended_at timestamptz,
    p_since timestamptz,
    p_reports boolean
)
returns integer
language sql immutable
as $$
    select case
               when p_recipe is not null then p_recipe
               when p_since is null or p_ended_at < p_since then 1
               when p_outcome in ('done', 'failed', 'withdrawn') and p_reports then 1
           end
$$;
