-- Results of calls with a ligand each, as agents leave them, in a campaign that has none.
with one as (
    insert into taskq.session (
           key, campaign_id, opened_at, heartbeat_at, lease_s, ended_at, slots, pid, agent, host,
           site, release)
    values (gen_random_uuid(), 1, now(), now(), 60, now(), 1, 1, 'agent', 'node7', '', '')
 returning session_id
), call as (
    insert into taskq.spec (campaign_id, key, payload)
    select %(campaign)s, 'ZINC' || lpad(n::text, 12, '0'),
           jsonb_build_object(
               'smiles', 'CC(=O)Oc1ccccc1C(=O)O', 'name', 'ZINC' || lpad(n::text, 12, '0'))
      from generate_series(1, %(rows)s) n
 returning task_id
)
insert into taskq.attempt (
       campaign_id, task_id, attempt, lease_id, session_id, claimed_at, ended_at, outcome, result)
select %(campaign)s, call.task_id, 1, gen_random_uuid(), one.session_id, now(),
       now() + interval '3 s', 'done',
       jsonb_build_object('score', -(call.task_id %% 1000) / 100.0, 'poses', 9)
  from call
 cross join one
