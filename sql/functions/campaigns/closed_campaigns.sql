-- closed_campaigns(path): the campaigns at and below a path that are not open, whose subtrees hand out no tasks;
-- nearly always none. paused, cancelled, archived: their ids, by status; null: none.
--
-- Index: campaign_closed.
create or replace function taskq.closed_campaigns(
    p_path text,
    out paused bigint[],
    out cancelled bigint[],
    out archived bigint[]
)
language plpgsql stable
as $$
begin
    select array_agg(c.campaign_id) filter (where c.status = 'paused'),
           array_agg(c.campaign_id) filter (where c.status = 'cancelled'),
           array_agg(c.campaign_id) filter (where c.status = 'archived')
      into paused, cancelled, archived
      from taskq.subtree(p_path) c
     where c.status <> 'open'
       and c.has_below;
end
$$;
