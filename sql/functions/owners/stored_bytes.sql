-- stored_bytes(owner): bytes that an owner's campaigns have stored: inputs, by campaign, large arguments, and output
-- files. A part of set_quota(), owners() and others; not for clients.
--
-- Index: campaign_owner, output_use_pkey.
-- @plan generic by-key
create or replace function taskq.stored_bytes(p_owner text)
returns bigint
language plpgsql stable
as $$
begin
    return (
        select taskq.total(i.bytes + o.bytes)
          from taskq.campaign c
         cross join lateral (
             select coalesce(taskq.total(i.size), 0) as bytes
               from taskq.stored_inputs(c.campaign_id, c.inputs, c.keep_inputs) i
         ) i
         cross join lateral (
             select taskq.total(u.bytes) as bytes
               from taskq.output_use u
              where u.campaign_id = c.campaign_id
             offset 0
         ) o
         where c.owner = p_owner);
end
$$;
