-- unpack(campaign, tasks, leases, wait): gives tasks that are in a bundle a row each, as working, so that something
-- other than a success can happen to them. A part of functions that change tasks; not for clients.
--
-- leases: one for each task, which must match; null: any lease. wait: whether to wait for bundles that
--     somebody else has locked; else their tasks stay there.
-- Result: whether it left none in a bundle.
--
-- Tasks are compared with a hashed sub-select, since a session may have thousands, and not by a join, whatever the
-- settings are. A null among them changes nothing.
--
-- Locks: the bundles, in the order of their key: before any row of a task. Index: bundle_task, bundle_pkey,
-- spec_pkey, task_pkey.
create or replace function taskq.unpack(
    p_campaign bigint, p_tasks bigint[], p_leases uuid[] default null, p_wait boolean default true)
returns boolean
language plpgsql
as $$
declare
    v_sessions bigint[];
    v_leases uuid[];
    v_firsts bigint[];
    v_found integer;
begin
    select array_agg(b.session_id), array_agg(b.lease_id), array_agg(b.first_id)
      into v_sessions, v_leases, v_firsts
      from (
          select distinct b.session_id, b.lease_id, b.first_id
            from unnest(p_tasks, p_leases) as u (task_id, lease_id)
           cross join lateral taskq.bundle_of(p_campaign, u.task_id) b
           where p_leases is null or u.lease_id = b.lease_id
           order by 1, 2, 3
      ) b;
    if v_firsts is null then
        return true;
    end if;
    v_found := cardinality(v_firsts);
    if p_wait then
        perform
           from unnest(v_sessions, v_leases, v_firsts) as k (session_id, lease_id, first_id)
          cross join lateral (
                select
                  from taskq.bundle b
                 where b.session_id = k.session_id
                   and b.lease_id = k.lease_id
                   and b.first_id = k.first_id
                   for no key update) b;
    else
        select array_agg(b.session_id), array_agg(b.lease_id), array_agg(b.first_id)
          into v_sessions, v_leases, v_firsts
          from unnest(v_sessions, v_leases, v_firsts) as k (session_id, lease_id, first_id)
         cross join lateral (
               select b.session_id, b.lease_id, b.first_id
                 from taskq.bundle b
                where b.session_id = k.session_id
                  and b.lease_id = k.lease_id
                  and b.first_id = k.first_id
                  for no key update skip locked) b;
    end if;

    -- As they are now that nobody else can change them.
    with held as materialized (
        select b.*
          from unnest(v_sessions, v_leases, v_firsts) as k (session_id, lease_id, first_id)
         cross join lateral (
               select b.session_id, b.lease_id, b.first_id, b.claimed_at, b.tasks
                 from taskq.bundle b
                where b.session_id = k.session_id
                  and b.lease_id = k.lease_id
                  and b.first_id = k.first_id
               offset 0) b
    ), moved as (
        insert into taskq.task (
               campaign_id, task_id, lease_id, session_id, claimed_at, status, attempt, priority)
        select p_campaign, t.task_id, h.lease_id, h.session_id, h.claimed_at, 'working', 1,
               coalesce(s.priority, 0)
          from held h
         cross join lateral unnest(h.tasks) as t (task_id)
          left join lateral taskq.spec_of(p_campaign, t.task_id) s on true
         where (t.task_id in (select u.task_id from unnest(p_tasks) as u (task_id))) is true
         order by t.task_id
            -- Only a damaged campaign has a task twice.
            on conflict (campaign_id, task_id) do nothing
    ), rest as materialized (
        select h.session_id, h.lease_id, h.first_id,
               array(select t.task_id
                       from unnest(h.tasks) as t (task_id)
                      where (t.task_id in (
                                 select u.task_id from unnest(p_tasks) as u (task_id))) is not true
                      order by 1) as tasks
          from held h
    ), emptied as (
        delete from taskq.bundle b
         using rest r
         where r.tasks = '{}'
           and b.session_id = r.session_id
           and b.lease_id = r.lease_id
           and b.first_id = r.first_id
    )
    update taskq.bundle b
       set tasks = r.tasks
      from rest r
     where r.tasks <> '{}'
       and b.session_id = r.session_id
       and b.lease_id = r.lease_id
       and b.first_id = r.first_id;
    return v_found = coalesce(cardinality(v_firsts), 0);
end
$$;
