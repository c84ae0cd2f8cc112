-- archived_sessions(campaign, after, upto): the sessions that attempts of a range of tasks refer to, in their order, without
-- what is secret; see archived_tasks(). Index: attempt_pkey, session_pkey.
-- @roles operator
-- @gateway no
-- @act no: it reads
-- @plan generic by-key
create or replace function taskq.archived_sessions(p_campaign bigint, p_after bigint, p_upto bigint)
returns table (
    session_id bigint,
    token_id bigint,
    opened_at timestamptz,
    heartbeat_at timestamptz,
    ended_at timestamptz,
    lease_s double precision,
    expired boolean,
    slots integer,
    pid integer,
    agent text,
    host text,
    site text,
    release text,
    offers text[],
    address text,
    left_why text,
    end_class text,
    exit_code integer,
    attempts integer,
    suspect text
)
language plpgsql stable
as $$
begin
    return query
        select n.session_id, n.token_id, n.opened_at, n.heartbeat_at, n.ended_at, n.lease_s, n.expired, n.slots, n.pid,
               n.agent, n.host, n.site, n.release, n.offers, n.address::text, n.left_why, n.end_class, n.exit_code,
               n.attempts, n.suspect
          from (
              select distinct a.session_id
                from taskq.attempt a
               where a.campaign_id = p_campaign
                 and a.task_id > p_after
                 and a.task_id <= p_upto
          ) u
         cross join lateral taskq.session_of(u.session_id) n
         order by n.session_id;
end
$$;
