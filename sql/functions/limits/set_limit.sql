-- set_limit(name, most, owners): sets how many starts of all campaigns that name a limit may run at a time; see
-- limit_room().
--
-- most: 0 to 20,000; with 0 nothing is handed out. owners: whose campaigns may name it, as change_campaign() checks;
--     null: all. Campaigns that name it already keep it.
-- Result: how many campaigns name it.
-- Error TQ400: not such a limit. Error TQ409: there are 1,000 already.
--
-- It holds for later claims, and takes nothing back.
--
-- Locks: one against other changes of limits; the limit. Index: named_limit_pkey, campaign_named.
-- @roles operator
-- @gateway no
-- @act limit
create or replace function taskq.set_limit(p_name text, p_most integer, p_owners text[] default null)
returns integer
language plpgsql
as $$
declare
    v_most constant integer := 1000;
    v_before taskq.named_limit;
begin
    perform taskq.demand_read_committed();
    perform pg_advisory_xact_lock(hashtext('taskq.limits'), 0);
    if (select count(*) from taskq.named_limit) >= v_most
       and not exists (select from taskq.named_limit l where l.name = p_name) then
        raise exception 'there are % limits; remove some', v_most using errcode = 'TQ409';
    end if;
    select l.* into v_before from taskq.named_limit l where l.name = p_name;
    insert into taskq.named_limit as l (name, most, owners, login, set_at)
    values (p_name, p_most, p_owners, session_user, clock_timestamp())
        on conflict (name) do update
       set most = excluded.most,
           owners = excluded.owners,
           login = excluded.login,
           set_at = excluded.set_at;
    if v_before.name is null or (v_before.most, v_before.owners) is distinct from (p_most, p_owners) then
        perform taskq.note_act(
            '/', 'limit', array_remove(array[
                p_name, 'most ' || p_most, 'owners ' || array_to_string(p_owners[:20], ', ')], null));
    end if;
    return (select count(*) from taskq.campaign c where c.named_limits <> '{}' and p_name = any (c.named_limits));
exception
    when check_violation or not_null_violation then
        raise exception 'a limit has a name (1 to 50 letters, digits, dots, dashes and underscores), how many starts'
                        ' may run (0 to 20,000), and 1 to 100 owners, or none for all'
            using errcode = 'TQ400';
end
$$;
