-- seed_tasks(path, tasks, on_conflict, named): seeds a chunk in one call, for clients that cannot COPY.
--
-- tasks: a JSON array of objects with payload (an object), key and optional priority.
-- on_conflict: 'fail', 'skip' or 'keep-both'; it and named as of seed_again().
-- Result: added: how many tasks; conflicts, named: of seed_again(). A payload that its key has
--     already, or that came with it before in the array, adds nothing.
-- Errors: see seed_begin(), seed_again(). Error TQ400: on_conflict is none of these, or a payload is
--     nested more than 64 deep. Not looked for: numbers of 4,300 digits or more, which no Python reads.
-- @roles gateway submitter
-- @gateway manager, wakes
-- @repeat safe
create or replace function taskq.seed_tasks(
    p_path text, p_tasks jsonb, p_on_conflict text, p_named integer,
    out added integer, out conflicts integer, out named jsonb)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_campaign constant bigint := taskq.campaign_id(p_path);
    v_above constant bigint := taskq.seed_begin(v_campaign);
    v_fresh integer;
begin
    if p_on_conflict is null or p_on_conflict not in ('fail', 'skip', 'keep-both') then
        raise exception 'on_conflict must be ''fail'', ''skip'' or ''keep-both'', not %',
            coalesce(quote_literal(p_on_conflict), 'null') using errcode = 'TQ400';
    end if;
    -- The array is level 0 and a payload level 2: a container at level 66 is the 65th in another.
    if jsonb_path_exists(p_tasks, 'strict $.**{66} ? (@.type() == "object" || @.type() == "array")',
                         silent => true) then
        raise exception 'values are nested more than 64 deep' using errcode = 'TQ400';
    end if;
    insert into taskq.spec (campaign_id, priority, key, payload)
    select v_campaign, coalesce(t.priority, 0), t.key, t.payload
      from jsonb_to_recordset(p_tasks) as t (key text, priority smallint, payload jsonb)
    on conflict (campaign_id, key) do nothing;
    get diagnostics v_fresh = row_count;
    conflicts := 0;
    named := '[]';
    if v_fresh < jsonb_array_length(p_tasks) then
        select a.conflicts, a.named into conflicts, named
          from taskq.seed_again(v_campaign, p_tasks, p_on_conflict, p_named) a;
    end if;
    added := taskq.seed_end(v_campaign, v_above);
end
$$;
