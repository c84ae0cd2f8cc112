"""Statements that fill campaigns with rows of every kind, for tests of plans."""

from __future__ import annotations

#: Tasks of a campaign: a fourth waits, a fourth has failed, half is done.
FILL = """
    with s as (
        insert into taskq.spec (campaign_id, key, payload)
        select %(campaign)s, 'n=' || n, '{}' from generate_series(1, %(count)s) n
     returning task_id
    ), t as (
        insert into taskq.task (campaign_id, task_id, session_id, attempt, status)
        select %(campaign)s, s.task_id, 1, (s.task_id %% 4 > 0)::integer,
               ('{waiting,failed,done,done}'::taskq.task_status[])[1 + s.task_id %% 4]
          from s
    )
    insert into taskq.attempt (
           campaign_id, task_id, attempt, lease_id, session_id, claimed_at, ended_at, outcome,
           error_class, error, tail, result)
    select %(campaign)s, s.task_id, 1, gen_random_uuid(), 1 + s.task_id %% %(sessions)s,
           now(), now(),
           ('{failed,done,done}'::taskq.attempt_outcome[])[s.task_id %% 4],
           case when s.task_id %% 4 = 1 then 'exit-1' end,
           case when s.task_id %% 4 = 1 then 'exited with 1' end,
           case when s.task_id %% 4 = 1 then 'no file ' || s.task_id %% 3 end,
           case when s.task_id %% 4 > 1 then jsonb_build_object('score', s.task_id) end
      from s
     where s.task_id %% 4 > 0
"""
# Of a task each: whatever is asked by their number seems to give one row.
#: Three thousand campaigns of one task.
SMALL = """
    with s as (
        insert into taskq.spec (campaign_id, key, payload)
        select 1000 + n, 'n=1', '{}' from generate_series(1, 3000) n
     returning campaign_id, task_id
    ), t as (
        insert into taskq.task (campaign_id, task_id, status)
        select s.campaign_id, s.task_id, 'done' from s
    )
    insert into taskq.attempt (
           campaign_id, task_id, attempt, lease_id, session_id, claimed_at, ended_at, outcome)
    select s.campaign_id, s.task_id, 1, gen_random_uuid(), 1, now(), now(), 'done' from s
"""
#: Sessions that have ended.
PRESENCE = """
    insert into taskq.session (
           key, campaign_id, opened_at, heartbeat_at, lease_s, ended_at, slots, pid, agent, host,
           site, release)
    select gen_random_uuid(), 1, now(), now(), 60, now(), 1, 1, 'a', 'h' || n %% 7, 's', ''
      from generate_series(1, %s) n
"""
