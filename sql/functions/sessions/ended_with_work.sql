-- ended_with_work(): the sessions that have ended and still have attempts: a claim that had read its session
-- as open committed after the end, or tasks were locked when the other tasks were handed out. A part of
-- expire() and recover(), which pin the settings; not for clients.
--
-- It goes from one session with work to the next, so it costs as much as there are such sessions, however many
-- tasks they have and sessions have ended. Index: bundle_pkey, task_working, session_pkey.
create or replace function taskq.ended_with_work()
returns setof bigint
language sql stable
as $$
    with recursive bundled as (
        (select b.session_id from taskq.bundle b order by b.session_id limit 1)
        union all
        select (select b.session_id
                  from taskq.bundle b
                 where b.session_id > h.session_id
                 order by b.session_id
                 limit 1)
          from bundled h
         where h.session_id is not null
    ), working as (
        (select t.session_id
           from taskq.task t
          where t.status = 'working'
          order by t.session_id
          limit 1)
        union all
        select (select t.session_id
                  from taskq.task t
                 where t.status = 'working'
                   and t.session_id > h.session_id
                 order by t.session_id
                 limit 1)
          from working h
         where h.session_id is not null
    )
    select h.session_id
      from (select b.session_id from bundled b union select w.session_id from working w) h
     where (select s.ended_at is not null
              from taskq.session s
             where s.session_id = h.session_id)
$$;
