-- held_since(path, sessions): since when sessions have had the tasks that they have now, at and below a path.
--
-- Result: a row for each claim and campaign at most; tasks: how many. Index: task_working, bundle_pkey, campaign_pkey.
-- @roles reader
-- @standby yes
-- @gateway manager
-- @plan generic by-key
create or replace function taskq.held_since(p_path text, p_sessions bigint[])
returns table (session_id bigint, claimed_at timestamptz, tasks bigint)
language plpgsql stable
as $$
begin
    return query
        select u.session_id, h.claimed_at, taskq.total(h.tasks)
          from unnest(p_sessions) as u (session_id)
         cross join lateral taskq.held_of(u.session_id) h
         cross join lateral taskq.campaign_of(h.campaign_id) c
         where taskq.at_or_below(c.path, p_path)
         group by u.session_id, h.claimed_at;
end
$$;
