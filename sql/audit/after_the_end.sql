-- No attempt follows an accepted one. If the accepted one was salvaged, see overlaps.sql, there may be later
-- attempts, but they ended before it was accepted, or at that moment.
--
-- Parameters, rows: see held.sql. Index: attempt_pkey.
select h.task_id,
       format('attempt %%s, %%s at %%s, comes after attempt %%s, which was accepted at %%s',
              h.attempt, h.outcome, h.ended_at, h.done, h.done_at) as text
  from (
      select a.task_id, a.attempt, a.outcome, a.ended_at,
             max(a.attempt) filter (where a.outcome = 'done') over before as done,
             max(a.ended_at) filter (where a.outcome = 'done') over before as done_at,
             bool_or(a.error_class is not null)
                 filter (where a.outcome = 'done') over before as salvaged
        from taskq.attempt a
       where a.campaign_id = %(campaign)s
         and a.task_id > %(after)s
         and a.task_id <= %(upto)s
      window before as (partition by a.task_id order by a.attempt)
  ) h
 where h.done < h.attempt
   and h.outcome <> 'done'
   and not (h.salvaged and h.ended_at <= h.done_at)
 order by h.task_id, h.attempt
