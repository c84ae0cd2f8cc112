-- archived_tasks(campaign, after, upto): the tasks of an archived campaign, of a range of ids, in their order; see
-- taskq/archives/columns.py. JSON comes as text, so that numbers stay as they are.
--
-- A task that no row knows is done, or is in a span of cancelled ones. Index: spec_pkey, task_pkey, span_pkey.
-- @roles operator
-- @gateway no
-- @act no: it reads
-- @plan generic by-key
create or replace function taskq.archived_tasks(p_campaign bigint, p_after bigint, p_upto bigint)
returns table (
    task_id bigint,
    key text,
    priority smallint,
    payload text,
    status text,
    attempt integer,
    lease_id text,
    session_id bigint,
    claimed_at timestamptz,
    due_at timestamptz,
    failures smallint,
    losses smallint,
    avoids integer[]
)
language plpgsql stable
as $$
begin
    return query
        select s.task_id, s.key, s.priority, s.payload::text,
               coalesce(t.status::text, (select n.status::text from taskq.span_of(p_campaign, s.task_id) n), 'done'),
               t.attempt, t.lease_id::text, t.session_id, t.claimed_at, t.due_at, t.failures, t.losses, t.avoids
          from taskq.spec s
          left join lateral (  -- by key, whatever is known of the campaign, see tasks()
               select t.status, t.attempt, t.lease_id, t.session_id, t.claimed_at, t.due_at, t.failures, t.losses, t.avoids
                 from taskq.task t
                where t.campaign_id = p_campaign
                  and t.task_id >= s.task_id
                  and t.task_id <= s.task_id
                order by t.campaign_id, t.task_id
                limit 1) t on true
         where s.campaign_id = p_campaign
           and s.task_id > p_after
           and s.task_id <= p_upto
         order by s.campaign_id, s.task_id;
end
$$;
