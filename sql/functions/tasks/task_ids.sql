-- task_ids(campaign, keys): the ids of tasks by their keys; no row for an unknown key.
--
-- Plans: see tasks(); key by key, see seed_known(). Index: spec_key_key.
-- @roles reader
-- @standby yes
-- @gateway manager
-- @plan generic by-key
create or replace function taskq.task_ids(p_campaign bigint, p_keys text[])
returns table (key text, task_id bigint)
language plpgsql stable
as $$
begin
    return query
        select s.key, s.task_id
          from (select distinct u.key from unnest(p_keys) as u (key)) k
         cross join lateral (
             select s.key, s.task_id
               from taskq.spec s
              where s.campaign_id = p_campaign
                and s.key >= k.key
                and s.key <= k.key
              order by s.campaign_id, s.key
              limit 1
         ) s;
end
$$;
