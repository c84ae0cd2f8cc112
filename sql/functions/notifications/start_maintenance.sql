-- start_maintenance(path, sites, hosts, why, lasts_s, in_s): announces that hosts, sites or a campaign are repaired. While
-- the window lasts, no message goes out about what is expected in it, and nothing there is judged by time; see
-- note_look(), failing_machines() and `taskq.diagnosis.maintenance`. It ends by itself.
--
-- path: the campaign that it is for, with all below it. sites, hosts: only there; empty: everywhere. lasts_s: for so many
--     seconds, a week at most. in_s: it begins so many seconds from now, 30 days at most.
-- Result: its id.
-- Error TQ400: not such names, reason or times. Error TQ404: no such campaign. Error TQ409: there are 100 windows that
--     have not ended.
--
-- Moves no task and orders no agent. Locks: one against other windows. Index: maintenance_pkey; there are few.
-- @roles manager operator
-- @gateway manager
-- @repeat once
-- @act maintain
create or replace function taskq.start_maintenance(
    p_path text,
    p_sites text[],
    p_hosts text[],
    p_why text,
    p_lasts_s double precision,
    p_in_s double precision default 0
)
returns bigint
language plpgsql
as $$
declare
    v_most constant integer := 100;
    v_now constant timestamptz := clock_timestamp();
    v_begins timestamptz;
    v_id bigint;
begin
    if (p_lasts_s between 1 and 604800
        and p_in_s between 0 and 2592000
        and not exists (
            select from unnest(p_sites || p_hosts) as n (name) where length(n.name) between 1 and 200 is not true)) is not true
    then
        raise exception 'a maintenance window lasts for 1 s to 7 days, begins within 30 days, and names sites and hosts'
                        ' by 1 to 200 characters'
            using errcode = 'TQ400';
    end if;
    perform taskq.campaign_id(p_path);
    perform pg_advisory_xact_lock(hashtext('taskq.maintenance'), 0);
    if (select count(*) from taskq.maintenance m where m.ends > v_now) >= v_most then
        raise exception 'there are % maintenance windows; end some', v_most using errcode = 'TQ409';
    end if;
    v_begins := v_now + make_interval(secs => p_in_s);
    v_id := 1 + coalesce((select max(m.maintenance_id) from taskq.maintenance m), 0);
    insert into taskq.maintenance (maintenance_id, path, sites, hosts, begins, ends, why, by)
    values (v_id, p_path, p_sites, p_hosts, v_begins, v_begins + make_interval(secs => p_lasts_s), p_why,
            taskq.caller());
    -- The latest stays, so that no id comes again.
    delete from taskq.maintenance m where m.ends < v_now - interval '3 days' and m.maintenance_id < v_id;
    perform taskq.note_act(
        p_path, 'maintain', array_remove(array[
            'window ' || v_id,
            'sites ' || nullif(array_to_string(p_sites[:20], ', '), ''),
            'hosts ' || nullif(array_to_string(p_hosts[:20], ', '), ''),
            p_why], null));
    return v_id;
exception
    when check_violation or not_null_violation then
        raise exception 'a maintenance window has a reason of 1 to 500 characters, and 1,000 sites and hosts at most'
            using errcode = 'TQ400';
end
$$;
