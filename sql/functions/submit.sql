-- submit(path, tasks): seeds a few tasks in one call, for clients that cannot COPY.
--
-- tasks: a JSON array of objects with payload (an object), key and optional priority. A key that
--     the campaign has already, or that came before in the array, adds nothing.
-- Result: how many were added. Errors: see seed_begin().
create or replace function taskq.submit(p_path text, p_tasks jsonb)
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_campaign constant bigint := taskq.campaign_id(p_path);
    v_above constant bigint := taskq.seed_begin(v_campaign);
begin
    insert into taskq.spec (campaign_id, priority, key, payload)
    select v_campaign, coalesce(t.priority, 0), t.key, t.payload
      from jsonb_to_recordset(p_tasks) as t (key text, priority smallint, payload jsonb)
    on conflict (campaign_id, key) do nothing;
    return taskq.seed_end(v_campaign, v_above);
end
$$;
