-- span_of(campaign, task): the span that a task is in, if it is in one; see session_of(). Index: span_pkey.
--
-- Only the nearest span may hold it, as with bundles, see bundle_of().
create or replace function taskq.span_of(p_campaign bigint, p_task bigint)
returns setof taskq.span
language sql stable
as $$
    select n.*
      from (
          select n.*
            from taskq.span n
           where n.campaign_id = p_campaign
             and n.first_id <= p_task
           order by n.campaign_id desc, n.first_id desc
           limit 1
      ) n
     where p_task between n.next_id and n.last_id
$$;
