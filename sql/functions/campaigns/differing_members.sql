-- differing_members(name, old, new): the members in which two JSON objects differ, as `name.member`, sorted, 50 at most.
-- A part of the statement campaign_changes.
-- @roles all
-- @standby yes
-- @gateway no
create or replace function taskq.differing_members(p_name text, p_old jsonb, p_new jsonb)
returns text[]
language sql immutable
as $$
    select array(
        select p_name || '.' || coalesce(o.key, n.key)
          from jsonb_each(case when jsonb_typeof(p_old) = 'object' then p_old else '{}' end) o
          full join jsonb_each(case when jsonb_typeof(p_new) = 'object' then p_new else '{}' end) n on n.key = o.key
         where o.value is distinct from n.value
         order by 1
         limit 50)
$$;
