-- shorten_delays(campaign, after, limit): delayed tasks become due after the campaign's backoff, counted from
-- now, unless they are due earlier. Call it after a change of the backoff.
--
-- after, limit, moved, last: see cancel(); moved: how many come due earlier now. Error TQ404: no such campaign.
--
-- Locks: the rows of the tasks, in the order of task_id; waits for them. Index: task_pkey. Planned at each call, see
-- cancel().
-- @roles submitter
-- @gateway submitter
-- @repeat safe
-- @act no: change_campaign() has noted the backoff
-- @plan custom by-key
create or replace function taskq.shorten_delays(
    p_campaign bigint,
    p_after bigint,
    p_limit integer,
    out moved integer,
    out last bigint
)
language plpgsql
as $$
declare
    v_now timestamptz;
    v_campaign taskq.campaign;
    v_rows tid[];
begin
    select c.* into v_campaign from taskq.campaign c where c.campaign_id = p_campaign;
    if not found then
        raise exception 'no campaign %', p_campaign using errcode = 'TQ404';
    end if;
    with found as materialized (
        select t.task_id, t.ctid as row_id
          from taskq.task t
         where t.campaign_id = p_campaign
           and t.task_id > p_after
           and t.status = 'delayed'
         order by t.campaign_id, t.task_id
         limit p_limit
           for no key update
    )
    select array_agg(f.row_id), case when count(*) = p_limit then max(f.task_id) end
      into v_rows, last
      from found f;
    -- After the locks: a task that failed again during the wait for them gets its whole backoff.
    v_now := clock_timestamp();
    with changed as (
        update taskq.task t
           set due_at = v.due_at
          from (select v_now + make_interval(secs => (0.75 + 0.5 * random()) * least(
                           v_campaign.backoff_max_s,
                           v_campaign.backoff_s * 2.0 ^ least(greatest(n.failures, 1) - 1, 60))) as due_at,
                       n.ctid as row_id
                  from taskq.task n
                 where n.ctid = any (v_rows)) v  -- see settle()
         where t.ctid = v.row_id
           and t.due_at > v.due_at
     returning 1
    )
    select count(*) into moved from changed;
end
$$;
