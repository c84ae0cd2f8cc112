-- No task is working for a session that has ended or does not exist. The keeper hands out the tasks of ended sessions
-- again within a minute or so, see keep(): none should be left of sessions that ended an hour before it last acted.
--
-- Parameters, rows: see held.sql. Index: task_pkey, session_pkey. Time is that of the snapshot: changes
-- that the keeper has made since cannot be seen in it.
select h.task_id,
       case when h.known
            then format('it is stuck: its session %%s ended at %%s, and no keeper has handed it out',
                        h.session_id, h.ended_at)
            else format('it is stuck: there is no session %%s', h.session_id)
       end as text
  from (
      select t.task_id, t.session_id,
             (select true from taskq.session s where s.session_id = t.session_id) as known,
             (select s.ended_at from taskq.session s where s.session_id = t.session_id) as ended_at
        from taskq.states(%(campaign)s, %(after)s, %(upto)s) t
       where t.status::text = 'working'
         and t.session_id <> 0
  ) h
 where h.known is null
    or h.ended_at <= (select least(k.until, now()) - interval '1 hour' from taskq.keeper k where k.only_one)
 order by h.task_id
