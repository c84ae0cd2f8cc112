-- failing_campaigns(path): the campaigns at and below a path that have tasks that failed, or attempts that ended in
-- another way than by a result.
--
-- Of a subtree of at most 1,000 campaigns each is looked up; else it goes from one such campaign to the next in the
-- indexes, so that campaigns whose tasks have all succeeded cost nothing.
-- Error TQ404: no such campaign.
-- Index: attempt_unsuccessful, task_failed, campaign_path_key, campaign_pkey.
-- @roles reader
-- @standby yes
-- @gateway manager
-- @plan generic by-key
create or replace function taskq.failing_campaigns(p_path text)
returns table (campaign_id bigint, path text)
language plpgsql stable
as $$
declare
    v_many constant integer := 1000;
    v_top constant bigint := taskq.campaign_id(p_path);
    v_next bigint := -9223372036854775808;
    v_ids bigint[] := '{}';
begin
    if p_path <> '/' and not exists (select from taskq.subtree(p_path) offset v_many) then
        return query
            select c.campaign_id, c.path
              from taskq.subtree(p_path) c
             cross join lateral taskq.next_failing(c.campaign_id - 1) n (campaign_id)
             where n.campaign_id = c.campaign_id
             order by c.path;
        return;
    end if;
    loop
        v_next := taskq.next_failing(v_next);
        exit when v_next is null;
        v_ids := v_ids || v_next;
    end loop;
    return query
        select c.campaign_id, c.path
          from unnest(v_ids) as u (campaign_id)
         cross join lateral taskq.campaign_of(u.campaign_id) c
         where v_top = any (c.lineage)
         order by c.path;
end
$$;
