-- batches_in_hand(session): the tasks that a session holds to start them together, as its last heartbeat says, and how
-- many of them have begun without an outcome yet; nulls: it holds none, or its programs do not say what has begun. Of
-- campaigns that a manager's token is not for it counts none.
-- Index: session_pkey, campaign_pkey.
-- @roles reader
-- @standby no
-- @gateway no
create or replace function taskq.batches_in_hand(p_session bigint, out tasks bigint, out begun bigint)
language plpgsql stable
as $$
begin
    select sum(h.tasks), sum(cardinality(h.begun)) into tasks, begun
      from taskq.session s
     cross join lateral jsonb_to_recordset(s.claims) as h (campaign bigint, tasks integer, begun bigint[])
     cross join lateral taskq.campaign_of(h.campaign) c
     where s.session_id = p_session
       and taskq.token_covers(c.path);
end
$$;
