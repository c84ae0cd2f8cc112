-- take_each(campaign, sessions, leases): claims one task for each of several agents whose claims share a
-- statement, in the usual case, see take_one(), and if a span has that many tasks left, with consecutive ids.
-- Else it takes nothing, and take() does the work. A part of exchange(), which pins the settings and records
-- the moves; not for clients.
--
-- Results: as those of take().
--
-- Locks: the span. Index: span_waiting, spec_pkey. One statement: most of the time of a statement on few
-- rows goes into setting it up.
create or replace function taskq.take_each(
    p_campaign bigint,
    p_sessions bigint[],
    p_leases uuid[],
    out tasks json,
    out revision integer
)
language plpgsql
as $$
declare
    v_now_us constant bigint := extract(epoch from clock_timestamp()) * 1000000;
    v_many constant integer := cardinality(p_sessions);
    v_setting text := 'taskq.position_' || p_campaign;
    v_hint bigint[] := nullif(current_setting(v_setting, true), '')::bigint[];
    v_rank bigint;
    v_span bigint;
begin
    if v_hint is null or v_hint[4] = 1
       or v_now_us not between v_hint[3] - 5000000 and v_hint[3]
    then
        return;
    end if;
    with head as materialized (
        select s.first_id, s.next_id, s.last_id, s.priority
          from taskq.span s
         where s.campaign_id = p_campaign
           and s.status = 'waiting'
           and ((-s.priority), s.first_id) >= (v_hint[5], v_hint[6])
         order by s.campaign_id, (-s.priority), s.first_id
         limit 1
           for no key update skip locked
    ), pick as materialized (
        select h.first_id, h.priority, s.task_id, s.key, s.payload, c.revision,
               s.task_id - h.next_id + 1 as ord
          from head h
         cross join lateral (
               select s.task_id, s.key, s.payload
                 from taskq.spec s
                where s.campaign_id = p_campaign
                  and s.task_id >= h.next_id
                  and s.task_id < h.next_id + v_many
                  and s.task_id <= h.last_id
                order by s.campaign_id, s.task_id) s,
               taskq.campaign c
         where c.campaign_id = p_campaign
           and c.max_running is null
           and not exists (
               select from taskq.campaign a
                where a.campaign_id = any (c.lineage)
                  and a.status <> 'open')
           and (select count(*)
                  from unnest(p_sessions, p_leases) as n (session_id, lease_id)
                 cross join lateral (
                       select from taskq.session e
                        where e.session_id = n.session_id
                          and e.ended_at is null
                          and not exists (
                              select from taskq.task w
                               where w.session_id = n.session_id
                                 and w.lease_id = n.lease_id
                                 and w.status = 'working')
                          and not exists (
                              select from taskq.bundle b
                               where b.session_id = n.session_id
                                 and b.lease_id = n.lease_id)
                       offset 0
                 ) e) = v_many
           -- Once for all that offer the same.
           and (c.requires = '{}' or (
               select bool_and(taskq.offered(c.requires, o.offers))
                 from (select distinct e.offers
                         from taskq.session e
                        where e.session_id = any (p_sessions)
                       offset 0) o))
           -- The first one only: `exists` would be planned as a join, and walk all that come later.
           and (select ((-w.priority), w.task_id) < ((-h.priority), h.next_id + v_many)
                  from taskq.task w
                 where w.campaign_id = p_campaign
                   and w.status = 'waiting'
                   and w.avoids is null
                   and ((-w.priority), w.task_id) > (v_hint[1], v_hint[2])
                 order by w.campaign_id, (-w.priority), w.task_id
                 limit 1) is not true
    ), taken as materialized (
        select p.*, p_sessions[p.ord] as session_id, p_leases[p.ord] as lease_id
          from pick p
         where (select count(*) from pick) = v_many
    ), moved as (
        update taskq.span s
           set next_id = h.next_id + v_many
          from head h
         where s.campaign_id = p_campaign
           and s.first_id = h.first_id
           and exists (select from taken)
    ), working as (
        insert into taskq.task (
               campaign_id, task_id, lease_id, session_id, claimed_at, status, attempt, priority)
        -- Behind the lock: an attempt begins after that before it has ended.
        select p_campaign, t.task_id, t.lease_id, t.session_id, clock_timestamp(), 'working', 1,
               t.priority
          from taken t
    )
    select json_agg(
               json_build_array(t.lease_id, t.task_id, 1, t.key, t.payload, t.session_id)),
           min(t.revision), min(-t.priority), min(t.first_id)
      into tasks, revision, v_rank, v_span
      from taken t;
    if tasks is not null and (v_hint[5] <> v_rank or v_hint[6] <> v_span) then
        v_hint[5:6] := array[v_rank, v_span];
        v_setting := set_config(v_setting, v_hint::text, false);
    end if;
end
$$;
