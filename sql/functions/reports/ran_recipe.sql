-- ran_recipe(recipe, outcome, ended_at, session, since): the recipe that an ended attempt ran; null: nobody knows.
--
-- recipe, outcome, ended_at, session: of the attempt. since: see recipes_since().
--
-- A stored null is the first recipe if the campaign had no other yet, or if the attempt's agent reports recipes and
-- has reported how it ended. An agent before protocol 3 may have run any. Of an attempt that the server ended, such
-- as a lost one, nobody has said what it ran. Index: session_pkey.
create or replace function taskq.ran_recipe(
    p_recipe integer,
    p_outcome taskq.attempt_outcome,
    p_ended_at timestamptz,
    p_session bigint,
    p_since timestamptz
)
returns integer
language sql stable
as $$
    select case
               when p_recipe is not null then p_recipe
               when p_since is null or p_ended_at < p_since then 1
               when p_outcome in ('done', 'failed', 'withdrawn')
                    and (select taskq.offered('{protocol>=3}', s.offers)
                           from taskq.session s
                          where s.session_id = p_session) then 1
           end
$$;
