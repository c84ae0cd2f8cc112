-- end_checkpoints(campaign, task, most): forgets the checkpoints of tasks that are final or gone, among the next
-- `most` after a place; the keeper calls it again and again, from the place that it returns.
--
-- digests: of those that were forgotten: nothing refers to these blobs any more; or null.
-- last_campaign, last_task: the place that it has reached; nulls: the end, so begin at 0, 0.
--
-- A task that has a checkpoint and is not final has a row, see save_checkpoint(). Between the look and the
-- deletion only an operator's retry can give it one; then it begins again.
--
-- Locks: the rows of the checkpoints that go. Index: checkpoint_pkey, task_pkey.
-- @roles upkeep
-- @plan generic by-key
create or replace function taskq.end_checkpoints(
    p_campaign bigint,
    p_task bigint,
    p_most integer,
    out digests text[],
    out last_campaign bigint,
    out last_task bigint
)
language plpgsql
as $$
declare
    v_campaigns bigint[];
    v_tasks bigint[];
    v_place integer;
    v_digest text;
begin
    select array_agg(k.campaign_id order by k.campaign_id, k.task_id),
           array_agg(k.task_id order by k.campaign_id, k.task_id)
      into v_campaigns, v_tasks
      from (
          select k.campaign_id, k.task_id
            from taskq.checkpoint k
           where (k.campaign_id, k.task_id) > (p_campaign, p_task)
           order by k.campaign_id, k.task_id
           limit p_most
      ) k;
    if cardinality(v_tasks) = p_most then
        last_campaign := v_campaigns[p_most];
        last_task := v_tasks[p_most];
    end if;
    -- One by one, each by its whole key: see beat() for why there is no join.
    for v_place in 1 .. coalesce(cardinality(v_tasks), 0) loop
        perform
           from taskq.task t
          where t.campaign_id = v_campaigns[v_place]
            and t.task_id = v_tasks[v_place]
            and t.status::text in ('waiting', 'delayed', 'working');
        if not found then
            delete from taskq.checkpoint k
             where k.campaign_id = v_campaigns[v_place]
               and k.task_id = v_tasks[v_place]
         returning k.digest into v_digest;
            digests := digests || v_digest;
        end if;
    end loop;
end
$$;
