-- archived_attempts(campaign, after, upto): the attempts of an archived campaign, of a range of tasks, in their order; see
-- archived_tasks(). Index: attempt_pkey.
-- @roles operator
-- @gateway no
-- @act no: it reads
-- @plan generic by-key
create or replace function taskq.archived_attempts(p_campaign bigint, p_after bigint, p_upto bigint)
returns table (
    task_id bigint,
    attempt integer,
    session_id bigint,
    lease_id text,
    claimed_at timestamptz,
    ended_at timestamptz,
    outcome text,
    exit_code integer,
    error_class text,
    error text,
    result text,
    phases text,
    tail text,
    refused boolean,
    recipe integer
)
language plpgsql stable
as $$
begin
    return query
        select a.task_id, a.attempt, a.session_id, a.lease_id::text, a.claimed_at, a.ended_at, a.outcome::text,
               a.exit_code, a.error_class, a.error, a.result::text, a.phases::text, a.tail, a.refused,
               a.recipe
          from taskq.attempt a
         where a.campaign_id = p_campaign
           and a.task_id > p_after
           and a.task_id <= p_upto
         order by a.campaign_id, a.task_id, a.attempt;
end
$$;
