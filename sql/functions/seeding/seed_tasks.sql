-- seed_tasks(path, tasks, on_conflict, named): seeds a chunk in one call, for clients that cannot COPY.
--
-- tasks: JSON text, an array of objects with payload (an object), key and optional priority.
-- on_conflict: 'fail', 'skip' or 'keep-both'; see seed_again(), also for named.
-- Result: added: how many tasks; conflicts, named: of seed_again(). A payload that its key has
--     already, or that came with it before in the array, adds nothing.
-- Errors: see seed_begin(), seed_again(), checked_payload(). Error TQ400: on_conflict is none of these.
-- @roles submitter
-- @gateway manager, wakes
-- @repeat safe
-- @act no: tasks have their time, and the campaign its owner
create or replace function taskq.seed_tasks(
    p_path text, p_tasks text, p_on_conflict text, p_named integer,
    out added integer, out conflicts integer, out named jsonb)
language plpgsql
as $$
declare
    v_campaign constant bigint := taskq.campaign_id(p_path);
    v_above constant bigint := taskq.seed_begin(v_campaign);
    v_fresh integer;
    v_largest integer;
    v_given integer;
begin
    if p_on_conflict is null or p_on_conflict not in ('fail', 'skip', 'keep-both') then
        raise exception 'on_conflict must be ''fail'', ''skip'' or ''keep-both'', not %',
            coalesce(quote_literal(p_on_conflict), 'null') using errcode = 'TQ400';
    end if;
    with given as materialized (
        select t.key, t.priority, t.payload
          from json_to_recordset(p_tasks::json) as t (key text, priority smallint, payload json)
    ), added as (
        insert into taskq.spec (campaign_id, priority, key, payload)
        select v_campaign, coalesce(g.priority, 0), g.key, taskq.checked_payload(g.payload)
          from given g
        on conflict (campaign_id, key) do nothing
        returning task_id
    )
    select (select count(*) from added), max(octet_length(g.payload::text)), count(*)
      into v_fresh, v_largest, v_given
      from given g;
    -- PostgreSQL writes spaces, and a number with an exponent at most 60 times as long.
    v_largest := v_largest * case when p_tasks ~ '[0-9][eE]' then 60 else 2 end;
    conflicts := 0;
    named := '[]';
    if v_fresh < v_given then
        select a.conflicts, a.named into conflicts, named
          from taskq.seed_again(v_campaign, p_tasks::jsonb, p_on_conflict, p_named) a;
    end if;
    added := taskq.seed_end(v_campaign, v_above, v_largest);
end
$$;
