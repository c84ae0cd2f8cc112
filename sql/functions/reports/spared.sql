-- spared(session, claims, class): the tasks of a lost session that say nothing about the loss: they wait in batches,
-- and had not begun; see give_back(), of which this is a part.
--
-- claims: what the session's last heartbeat said of claims, see the table. class: that of the end of its batch job,
--     if somebody saw that; then nobody is to blame who is not known to have begun, unless memory was exhausted.
--
-- Index: task_working, campaign_pkey, attempt_pkey.
create or replace function taskq.spared(p_session bigint, p_claims jsonb, p_class text)
returns setof bigint
language plpgsql stable
as $$
declare
    v_explained constant boolean := coalesce(p_class <> 'job-out-of-memory', false);
    v_batched constant bigint[] := array(
        select c.campaign_id
          from (select distinct t.campaign_id
                  from taskq.task t
                 where t.session_id = p_session
                   and t.status = 'working') h
         cross join lateral taskq.campaign_of(h.campaign_id) c
         where c.handler -> 'batch' is not null);
    v_tasks bigint[];
    v_campaigns bigint[];
    v_attempts integer[];
    v_all boolean;
begin
    if v_batched = '{}' then
        return;
    end if;
    with said as materialized (
        select c.campaign, c.lease, c.begun
          from jsonb_to_recordset(p_claims) as c (campaign bigint, lease uuid, begun bigint[])
    ), begun as materialized (
        select s.campaign, s.lease, b.task
          from said s
         cross join lateral unnest(s.begun) as b (task)
    ), held as materialized (
        select t.task_id, t.campaign_id, t.attempt,
               t.campaign_id = any (v_batched)
               and case when (t.campaign_id, t.lease_id) in (
                             select s.campaign, s.lease from said s where s.begun is not null)
                        then (t.campaign_id, t.lease_id, t.task_id) not in (
                             select b.campaign, b.lease, b.task from begun b)
                        else v_explained end as spared
          from taskq.task t
         where t.session_id = p_session
           and t.status = 'working'
    )
    select array_agg(h.task_id) filter (where h.spared), array_agg(h.campaign_id) filter (where h.spared),
           array_agg(h.attempt) filter (where h.spared), bool_and(h.spared)
      into v_tasks, v_campaigns, v_attempts, v_all
      from held h;
    return query
        select s.task_id
          from unnest(v_tasks, v_campaigns, v_attempts) as s (task_id, campaign_id, attempt)
         where not v_all
            or v_explained
            or not exists (
               select from taskq.attempt a
                where a.campaign_id = s.campaign_id
                  and a.task_id = s.task_id
                  and a.attempt = s.attempt - 1
                  and a.outcome::text = 'released'
                  and a.error_class = 'not-begun');
end
$$;
