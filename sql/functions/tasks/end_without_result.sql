-- end_without_result(campaign, task): how a task has ended without a result: failed, cancelled, or removed, if there
-- is no such task (any more); no row if it has not, or has one. A part of functions that pin the settings; not for
-- clients.
--
-- Inlined into the calling statement, as accepted_of(). Index: task_pkey, span_pkey, spec_pkey.
create or replace function taskq.end_without_result(p_campaign bigint, p_task bigint)
returns setof text
language sql stable
as $$
    select e.status
      from (
          select case
                     when not exists (select from taskq.spec_of(p_campaign, p_task))
                     then 'removed'
                     else coalesce(
                         -- As text, which no partial index answers.
                         (select t.status::text
                            from taskq.task t
                           where t.campaign_id = p_campaign
                             and t.task_id = p_task
                             and t.status::text in ('failed', 'cancelled')),
                         (select n.status::text
                            from taskq.span_of(p_campaign, p_task) n
                           where n.status::text = 'cancelled'))
                 end as status
          offset 0
      ) e
     where e.status is not null
$$;
