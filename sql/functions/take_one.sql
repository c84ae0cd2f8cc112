-- take_one(campaign, session, lease): claims one task for one agent in the usual case: the campaign is open and
-- neither requires what the agent does not offer nor limits how many run, the session lives, the lease id is new,
-- the span of the connection's position hint has tasks left and is not locked, and no task with a row comes before
-- them, see usual_position(). Else it takes nothing, and take() does the work. A part of exchange(), which pins the
-- settings and records the moves; not for clients.
--
-- Results: as those of take().
--
-- Locks: the span. Index: span_pkey, spec_pkey. One statement: most of the time of a statement on one
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
    v_setting text;
    v_hint constant bigint[] := taskq.usual_position(p_campaign);
begin
    if v_hint is null then
        return;
    end if;
    with head as materialized (
        select s.first_id, s.next_id, s.last_id, s.priority
          from taskq.span s
         where s.campaign_id = p_campaign
           and s.first_id = v_hint[6]
           and s.status::text = 'waiting'  -- by span_pkey, see settle()
           for no key update skip locked
    ), pick as materialized (
        select h.first_id, h.priority, s.task_id, s.key, s.payload, c.revision
          from head h
         cross join lateral (
               select s.task_id, s.key, s.payload
                 from taskq.spec s
                where s.campaign_id = p_campaign
                  and s.task_id >= h.next_id
                  -- The server looks at all entries of a page that are in the range.
                  and s.task_id < h.next_id + 16
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
           and ((-h.priority), h.next_id) < (v_hint[7], v_hint[8])
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
           p.revision
      into tasks, revision
      from pick p;
    if found and v_hint[3] < 0 then
        v_setting := taskq.keep_position(p_campaign, v_hint);
    end if;
end
$$;
