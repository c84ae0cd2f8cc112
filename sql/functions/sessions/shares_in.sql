-- shares_in(said): what the slots of a session have of its node, from what its last heartbeat said, see
-- taskq_agent.slot_shares: devices with the part of each, and amounts of named resources, by name.
-- @roles reader
-- @standby yes
-- @gateway no
create or replace function taskq.shares_in(p_said jsonb)
returns table (slot integer, campaign_id bigint, task_id bigint, has jsonb)
language sql stable
as $$
    select h.slot, h.campaign, h.task,
           jsonb_build_object(
               'devices',
               (select coalesce(jsonb_object_agg(d.name, (coalesce(d.parts, 1000) / 1000.0)::double precision), '{}')
                  from jsonb_to_recordset(h.devices) as d (name text, parts integer)
                 where d.name is not null),
               'resources',
               (select coalesce(jsonb_object_agg(n.name, n.amount), '{}')
                  from jsonb_to_recordset(h.resources) as n (name text, amount bigint)
                 where n.name is not null
                   and n.amount is not null))
      from jsonb_to_recordset(p_said -> 'shares')
           as h (slot integer, campaign bigint, task bigint, devices jsonb, resources jsonb)
     where h.slot is not null
$$;
