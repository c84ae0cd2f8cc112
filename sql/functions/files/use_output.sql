-- use_output(campaign, token, task, bytes): counts bytes of output files that were stored, or removed. A part
-- of save_output() and end_outputs(); not for clients.
--
-- Locks: one row of sixteen, until the transaction ends. Index: output_use_pkey.
create or replace function taskq.use_output(
    p_campaign bigint, p_token bigint, p_task bigint, p_bytes bigint)
returns void
language plpgsql
as $$
begin
    insert into taskq.output_use as u (campaign_id, token_id, part, bytes)
    values (p_campaign, p_token, p_task % 16, p_bytes)
        on conflict (campaign_id, token_id, part) do update set bytes = u.bytes + excluded.bytes;
end
$$;
