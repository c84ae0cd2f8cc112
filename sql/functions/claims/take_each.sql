-- take_each(campaign, sessions, leases): claims one task for each of up to 64 agents in the usual case; else it takes
-- nothing, and take() does the work. A part of exchange(), which pins the settings and records the moves; not for
-- clients.
--
-- The usual case: the campaign is open, requires nothing that an agent does not offer, and does not limit how many
-- run; the sessions live; the lease ids are new; the span of the connection's position hint, or the first one if the
-- hint has expired, has that many tasks left and is not locked; no task with a row comes before them, see
-- usual_position().
--
-- Results: as those of take().
--
-- Locks: the span. Index: span_waiting, span_pkey, spec_pkey. One statement: most of the time of a statement on few
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
    v_many constant integer := cardinality(p_sessions);
    v_hint bigint[] := taskq.position_hint(p_campaign);
    v_next bigint;
    v_setting text;
begin
    if taskq.is_fresh(v_hint) is not true then
        select taskq.new_hint(-s.priority, s.first_id), s.next_id into v_hint, v_next
          from taskq.span s
         where s.campaign_id = p_campaign
           and s.status = 'waiting'
           -- Claims of a campaign with a limit wait for each other in room_to_run(), and must hold no span then.
           and (select c.max_running is null from taskq.campaign c where c.campaign_id = p_campaign)
         order by s.campaign_id, (-s.priority), s.first_id
         limit 1
           for no key update skip locked;
        v_hint := taskq.usual_position(p_campaign, v_hint, v_next);
    elsif v_hint[taskq.hint('clear_to')] is null and v_hint[taskq.hint('again')] = 0
        and v_hint[taskq.hint('span')] > 0
        and (select c.max_running is null from taskq.campaign c where c.campaign_id = p_campaign)
    then
        v_hint := taskq.usual_position(p_campaign, v_hint);
    end if;
    if v_hint[taskq.hint('clear_to')] is null then
        return;
    end if;
    with head as materialized (
        select s.first_id, s.next_id, s.last_id, s.priority
          from taskq.span s
         where s.campaign_id = p_campaign
           and s.first_id = v_hint[taskq.hint('span')]
           and s.status::text = 'waiting'  -- by span_pkey, see settle()
           for no key update skip locked
    ), pick as materialized (
        select h.first_id, h.priority, s.task_id, s.key, s.payload, c.revision,
               row_number() over (order by s.task_id) as ord
          from head h
         cross join lateral (
               select s.task_id, s.key, s.payload
                 from taskq.spec s
                where s.campaign_id = p_campaign
                  and s.task_id >= h.next_id
                  and s.task_id < h.next_id + 12 + 4 * v_many
                  and s.task_id <= h.last_id
                order by s.campaign_id, s.task_id
                limit v_many) s,
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
    ), taken as materialized (
        select p.*, p_sessions[p.ord] as session_id, p_leases[p.ord] as lease_id
          from pick p
         where (select p.task_id
                  from pick p
                 where p.ord = v_many
                   and p.task_id < v_hint[taskq.hint('clear_to')]) is not null
    ), moved as (
        update taskq.span s
           set next_id = t.task_id + 1
          from taken t
         where s.campaign_id = p_campaign
           and s.first_id = t.first_id
           and t.ord = v_many
    ), working as (
        insert into taskq.task (
               campaign_id, task_id, lease_id, session_id, claimed_at, status, attempt, priority)
        -- After the lock: an attempt begins after the one before it has ended.
        select p_campaign, t.task_id, t.lease_id, t.session_id, clock_timestamp(), 'working', 1,
               t.priority
          from taken t
    )
    select json_agg(
               json_build_array(t.lease_id, t.task_id, 1, t.key, t.payload, t.session_id)),
           min(t.revision)
      into tasks, revision
      from taken t;
    if tasks is not null and v_hint[taskq.hint('until')] < 0 then
        v_setting := taskq.keep_position(p_campaign, v_hint);
    end if;
end
$$;
