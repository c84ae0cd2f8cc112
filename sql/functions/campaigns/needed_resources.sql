-- needed_resources(tags): how much a campaign needs of named resources, a JSON object of amounts by name. tags: as
-- resource_tags() returns them.
-- @roles all
-- @standby yes
-- @gateway no
create or replace function taskq.needed_resources(p_tags text[])
returns jsonb
language sql immutable
as $$
    select coalesce(
               jsonb_object_agg(substring(r.tag from '^resource[.](.*)>='), substring(r.tag from '>=(.*)$')::bigint),
               '{}')
      from unnest(p_tags) as r (tag)
$$;
