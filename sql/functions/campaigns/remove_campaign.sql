-- remove_campaign(path): deletes a campaign that has neither tasks nor campaigns below it.
--
-- Error TQ404: no such campaign. Error TQ409: it is not empty, it is the root, or it is not cancelled: one that was made
--     anew at the path, after another removal was faster.
--
-- What its counter has leaves the subtotals above; that it has any is since not all its deltas are folded yet. If its
-- counts are damaged, those above are summed anew.
--
-- It ends the stone of the removal, see begin_removal(), unless the campaign was not restored as a whole: then there is
-- none. Of a path the latest ten stones stay, in all 200,000.
--
-- Locks: the row of `fold`, so that no fold is under way; then the campaign's row, the rows of its stone and of
-- `removed_sum`, its own and that of the campaign above.
-- @roles manager operator
-- @gateway submitter
-- @repeat once
-- @act no: begin_removal() has noted it
-- @plan generic by-key
create or replace function taskq.remove_campaign(p_path text)
returns void
language plpgsql
as $$
declare
    v_id constant bigint := taskq.campaign_id(p_path);
    v_above constant bigint[] := (
        select array_remove(c.lineage, c.campaign_id) from taskq.campaign c where c.campaign_id = v_id);
    v_counter taskq.counter;
    v_moved record;
    v_stone bigint;
    v_is_part boolean;
begin
    perform from taskq.fold f where f.only_one for update;
    perform from taskq.campaign c where c.campaign_id = v_id for update;
    if p_path = '/'
       or exists (select from taskq.campaign c where c.parent_id = v_id)
       or exists (select from taskq.spec s where s.campaign_id = v_id)
       or exists (select from taskq.task t where t.campaign_id = v_id)
       or exists (select from taskq.span s where s.campaign_id = v_id)
       or exists (select from taskq.bundle b where b.campaign_id = v_id)
    then
        raise exception 'campaign % is not empty: remove its tasks and the campaigns below it first', p_path
            using errcode = 'TQ409';
    end if;
    if taskq.campaign_state(v_id) <> 'cancelled' then
        raise exception 'campaign % is not cancelled: cancel it before it is removed', p_path using errcode = 'TQ409';
    end if;
    v_stone := taskq.stone_of(v_id);
    v_is_part := exists (select from taskq.archive a where a.campaign_id = v_stone and a.restoring is not null);
    update taskq.stone s
       set campaigns = s.campaigns + 1,
           removed_at = case when v_stone = v_id then clock_timestamp() end
     where s.campaign_id = v_stone
       and s.removed_at is null;
    if v_stone = v_id then
        delete from taskq.stone s
         where s.path = p_path
           and s.begun_at = any (array(
                   select o.begun_at
                     from taskq.stone o
                    where o.path = p_path
                    order by o.path desc, o.begun_at desc
                   offset case when v_is_part then 0 else 10 end
                    limit case when v_is_part then 1 end));
        if random() < 0.01 then
            delete from taskq.stone s
             where s.removed_at <= (
                       select o.removed_at
                         from taskq.stone o
                        where o.removed_at is not null
                        order by o.removed_at desc
                       offset 200000
                        limit 1);
        end if;
    end if;
    with gone as (
        delete from taskq.removed_sum r where r.campaign_id = v_id
     returning r.*
    )
    insert into taskq.removed_sum as r (campaign_id, done, failed, failures)
    select v_above[cardinality(v_above)], g.done, g.failed, g.failures
      from gone g
        on conflict (campaign_id) do update
       set done = r.done + excluded.done,
           failed = r.failed + excluded.failed,
           failures = r.failures + excluded.failures;
    with gone as (
        delete from taskq.delta d where d.campaign_id = v_id
     returning d.*
    )
    select coalesce(sum(g.waiting), 0) as waiting, coalesce(sum(g.delayed), 0) as delayed,
           coalesce(sum(g.working), 0) as working, coalesce(sum(g.done), 0) as done,
           coalesce(sum(g.failed), 0) as failed, coalesce(sum(g.cancelled), 0) as cancelled,
           coalesce(sum(g.failures), 0) as failures, coalesce(sum(g.losses), 0) as losses
      into v_moved
      from gone g;
    delete from taskq.counter n where n.campaign_id = v_id
 returning n.* into v_counter;
    if (v_counter.waiting, v_counter.delayed, v_counter.working, v_counter.done, v_counter.failed,
        v_counter.cancelled, v_counter.failures, v_counter.losses)
       = (-v_moved.waiting, -v_moved.delayed, -v_moved.working, -v_moved.done, -v_moved.failed,
          -v_moved.cancelled, -v_moved.failures, -v_moved.losses)
    then
        update taskq.subtotal s
           set waiting = s.waiting - v_counter.waiting,
               delayed = s.delayed - v_counter.delayed,
               working = s.working - v_counter.working,
               done = s.done - v_counter.done,
               failed = s.failed - v_counter.failed,
               cancelled = s.cancelled - v_counter.cancelled,
               failures = s.failures - v_counter.failures,
               losses = s.losses - v_counter.losses
         where s.campaign_id = any (v_above);
    else  -- it was damaged
        perform taskq.sum_anew(a.campaign_id) from unnest(v_above) as a (campaign_id);
    end if;
    delete from taskq.subtotal s where s.campaign_id = v_id;
    insert into taskq.delta (campaign_id, children) values (v_above[cardinality(v_above)], -1);
    delete from taskq.archive a where a.campaign_id = v_id;
    delete from taskq.retention r where r.campaign_id = v_id;
    delete from taskq.recipe r where r.campaign_id = v_id;
    delete from taskq.pulse p where p.campaign_id = v_id;
    update taskq.result_index i set dropped = true where i.campaign_id = v_id and not i.dropped;
    delete from taskq.trend t where t.campaign_id = v_id;
    delete from taskq.refusal r where r.campaign_id = v_id;
    delete from taskq.refused r where r.campaign_id = v_id;
    delete from taskq.limit_claim k where k.campaign_id = v_id;
    delete from taskq.limit_total t where t.campaign_id = v_id;
    delete from taskq.argument a where a.campaign_id = v_id;
    delete from taskq.output_use u where u.campaign_id = v_id and u.token_id = -1;
    delete from taskq.campaign c where c.campaign_id = v_id;
end
$$;
