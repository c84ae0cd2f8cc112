-- take_one(campaign, session, lease): claims one task for one agent in the usual case: the connection has a
-- fresh position hint, the campaign is open and neither requires anything nor limits how many run, the
-- session lives, the lease id is new, a span has tasks left, none with a row comes before them, and it is not
-- time to look for tasks that have failed before. Else it takes nothing, and take() does the work. A part of
-- exchange(), which pins the settings and records the moves; not for clients.
--
-- Results: as those of take().
--
-- Locks: the span. Index: span_waiting, spec_pkey. One statement: most of the time of a statement on one
-- row goes into setting it up.
create or replace function taskq.take_one(
    p_campaign bigint,
    p_session bigint,
    p_lease uuid,
    out tasks json,
    out revision integer
)
language plpgsql
as $$
declare
    v_now_us constant bigint := extract(epoch from clock_timestamp()) * 1000000;
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
        select h.first_id, h.priority, s.task_id, s.key, s.payload, c.revision
          from head h
         cross join lateral (
               select s.task_id, s.key, s.payload
                 from taskq.spec s
                where s.campaign_id = p_campaign
                  and s.task_id >= h.next_id
                  and s.task_id <= h.last_id
                order by s.campaign_id, s.task_id
                limit 1) s,
               taskq.campaign c
         where c.campaign_id = p_campaign
           and c.max_running is null
           and not exists (
               select from taskq.campaign a
                where a.campaign_id = any (c.lineage)
                  and a.status <> 'open')
           and (select c.requires = '{}' or taskq.offered(c.requires, e.offers)
                  from taskq.session e
                 where e.session_id = p_session
                   and e.ended_at is null)
           and not exists (
               select from taskq.task w
                where w.session_id = p_session
                  and w.lease_id = p_lease
                  and w.status = 'working')
           and not exists (
               select from taskq.bundle b
                where b.session_id = p_session
                  and b.lease_id = p_lease)
           -- The first one only: `exists` would be planned as a join, and walk all that come later.
           and (select ((-w.priority), w.task_id) < ((-h.priority), h.next_id)
                  from taskq.task w
                 where w.campaign_id = p_campaign
                   and w.status = 'waiting'
                   and w.avoids is null
                   and ((-w.priority), w.task_id) > (v_hint[1], v_hint[2])
                 order by w.campaign_id, (-w.priority), w.task_id
                 limit 1) is not true
    ), moved as (
        update taskq.span s
           set next_id = p.task_id + 1
          from pick p
         where s.campaign_id = p_campaign
           and s.first_id = p.first_id
    ), working as (
        insert into taskq.task (
               campaign_id, task_id, lease_id, session_id, claimed_at, status, attempt, priority)
        -- Behind the lock: an attempt begins after that before it has ended.
        select p_campaign, p.task_id, p_lease, p_session, clock_timestamp(), 'working', 1, p.priority
          from pick p
    )
    select json_build_array(
               json_build_array(p_lease, p.task_id, 1, p.key, p.payload, p_session)),
           p.revision, -p.priority, p.first_id
      into tasks, revision, v_rank, v_span
      from pick p;
    if found then
        if v_hint[5] <> v_rank or v_hint[6] <> v_span then
            v_hint[5:6] := array[v_rank, v_span];
            v_setting := set_config(v_setting, v_hint::text, false);
        end if;
    end if;
end
$$;
