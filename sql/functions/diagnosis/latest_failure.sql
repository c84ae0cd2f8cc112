-- latest_failure(path, host, class, most): the latest failure of a class on a host (null: on any), among the `most`
-- failures of that class in a campaign whose tasks were seeded last; no row: there is none.
--
-- error: its message; line: the last line of its output. Error TQ404: no such campaign.
--
-- Reads `most` attempts at most. Plans: see tasks(). Index: attempt_unsuccessful, session_pkey.
-- @roles reader
-- @standby yes
-- @gateway manager
-- @plan generic by-key
create or replace function taskq.latest_failure(p_path text, p_host text, p_error_class text, p_most integer)
returns table (error text, line text)
language plpgsql stable
as $$
declare
    v_campaign constant bigint := taskq.campaign_id(p_path);
begin
    return query
        select a.error, taskq.last_line(a.tail)
          from (
              select a.session_id, a.error, a.tail
                from taskq.attempt a
               where a.campaign_id = v_campaign
                 and a.error_class = p_error_class
                 and a.outcome <> 'done'
               order by a.campaign_id desc, a.error_class desc, a.task_id desc
               limit p_most
          ) a
         cross join lateral taskq.session_of(a.session_id) n
         where n.host = p_host or p_host is null
         limit 1;
end
$$;
