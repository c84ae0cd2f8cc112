-- set_quota(owner, quota): sets what an owner may use.
--
-- quota: a JSON object with any of max_running, max_waiting, max_bytes (null: any amount) and weight; missing
--     ones stay. A quota that limits nothing, with weight 1, is removed.
-- Result: how many campaigns the owner has.
-- Error TQ400: not such a quota. Error TQ409: there are 1,000 already.
--
-- It holds for later claims, seeds and uploads, and takes nothing back.
--
-- Locks: one against create_campaign() and give_campaign() for this owner; the quota; the campaigns that change.
-- Index: quota_pkey, campaign_owner.
-- @roles operator
-- @gateway no
-- @act quota
create or replace function taskq.set_quota(p_owner text, p_quota jsonb)
returns integer
language plpgsql
as $$
declare
    v_most constant integer := 1000;
    v_running integer;
    v_before taskq.quota;
    v_after taskq.quota;
begin
    perform taskq.demand_read_committed();
    if jsonb_typeof(p_quota) is distinct from 'object' then
        raise exception 'a quota is a JSON object' using errcode = 'TQ400';
    end if;
    perform pg_advisory_xact_lock(-3, hashtext(p_owner));
    if (select count(*) from taskq.quota) >= v_most
       and not exists (select from taskq.quota q where q.owner = p_owner) then
        raise exception 'there are % quotas; remove some', v_most using errcode = 'TQ409';
    end if;
    select q.* into v_before from taskq.quota q where q.owner = p_owner;
    insert into taskq.quota as q (
           owner, max_running, max_waiting, max_bytes, weight, login, set_at)
    values (p_owner, (p_quota ->> 'max_running')::integer, (p_quota ->> 'max_waiting')::bigint,
            (p_quota ->> 'max_bytes')::bigint,
            coalesce((p_quota ->> 'weight')::double precision, 1), session_user,
            clock_timestamp())
        on conflict (owner) do update
       set max_running = case when p_quota ? 'max_running' then excluded.max_running
                              else q.max_running end,
           max_waiting = case when p_quota ? 'max_waiting' then excluded.max_waiting
                              else q.max_waiting end,
           max_bytes = case when p_quota ? 'max_bytes' then excluded.max_bytes
                            else q.max_bytes end,
           weight = case when p_quota ? 'weight' then excluded.weight else q.weight end,
           is_full = q.is_full and not p_quota ? 'max_bytes',
           login = excluded.login,
           set_at = excluded.set_at;
    update taskq.quota q
       set is_full = coalesce(taskq.stored_bytes(p_owner) >= q.max_bytes, false)
     where q.owner = p_owner;
    delete from taskq.quota q
     where q.owner = p_owner
       and num_nonnulls(q.max_running, q.max_waiting, q.max_bytes) = 0
       and q.weight = 1;
    v_running := taskq.running_quota(p_owner);
    perform
       from taskq.campaign c
      where c.owner = p_owner
        and c.running_quota is distinct from v_running
      order by c.campaign_id
        for no key update;
    update taskq.campaign c
       set running_quota = v_running
     where c.owner = p_owner
       and c.running_quota is distinct from v_running;
    select q.* into v_after from taskq.quota q where q.owner = p_owner;
    if (v_before.max_running, v_before.max_waiting, v_before.max_bytes, coalesce(v_before.weight, 1))
       is distinct from (v_after.max_running, v_after.max_waiting, v_after.max_bytes, coalesce(v_after.weight, 1)) then
        perform taskq.note_act(
            '/', 'quota', array[p_owner] || array(
                select format('%s %s', k.name, coalesce(p_quota ->> k.name, 'any'))
                  from unnest(array['max_running', 'max_waiting', 'max_bytes', 'weight']) as k (name)
                 where p_quota ? k.name));
    end if;
    return (select count(*) from taskq.campaign c where c.owner = p_owner);
exception
    when data_exception or check_violation or not_null_violation then
        raise exception 'a quota is of an owner (1 to 100 characters): max_running (1 to 1,000,000), max_waiting'
                        ' (0 to 10^12), max_bytes (1 to 2^50), each a whole number or null for any amount,'
                        ' and weight (above 0, 1000 at most)'
            using errcode = 'TQ400';
end
$$;
