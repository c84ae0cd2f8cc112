-- end_outputs(campaign, task, most): decides on the output files of tasks that are final or gone, among the next
-- `most` undecided ones after a place: those of the accepted attempt stay, the others are forgotten. The keeper calls
-- it again and again, from the place that it returns.
--
-- digests, last_campaign, last_task: see end_checkpoints().
--
-- An attempt saves before it is reported, and a final task stays final unless an operator retries it; then
-- another attempt saves under another lease. But an attempt that was given up may still be salvaged after a
-- retry, or when the campaign begins to salvage, see salvageable(): its files stay until the task is done or
-- removed, whatever the status of task and campaign. Tasks that are removed become undecided, see
-- remove_tasks().
--
-- Locks: the rows that are decided; a row of output_use. Index: output_undecided, output_pkey, output_digest,
-- attempt_pkey, task_pkey, bundle_task, output_use_pkey.
-- @roles upkeep
-- @plan generic by-key
create or replace function taskq.end_outputs(
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
    v_one record;
    v_counts boolean;
    v_gone record;
    v_seen integer := 0;
begin
    -- One by one, each by its whole key: see beat() for why there is no join.
    for v_one in
        select o.campaign_id, o.task_id, o.lease_id
          from taskq.output o
         where not o.decided
           and (o.campaign_id, o.task_id) > (p_campaign, p_task)
         order by o.campaign_id, o.task_id, o.lease_id
         fetch first p_most rows with ties
    loop
        v_seen := v_seen + 1;
        last_campaign := v_one.campaign_id;
        last_task := v_one.task_id;
        -- In one snapshot: between two, a report could take the task from the place that is looked at next.
        select case when exists (
                        select
                          from taskq.attempt a
                         where a.campaign_id = v_one.campaign_id
                           and a.task_id = v_one.task_id
                           and a.lease_id = v_one.lease_id
                           and a.outcome::text = 'done')
                    then true
                    when not exists (
                        select
                          from taskq.task t
                         where t.campaign_id = v_one.campaign_id
                           and t.task_id = v_one.task_id
                           and t.status::text in ('waiting', 'delayed', 'working'))
                     and not exists (
                        select from taskq.bundle_of(v_one.campaign_id, v_one.task_id))
                     and not exists (
                        select
                          from taskq.attempt a
                         cross join taskq.task_of(v_one.campaign_id, v_one.task_id) t
                         where a.campaign_id = v_one.campaign_id
                           and a.task_id = v_one.task_id
                           and a.lease_id = v_one.lease_id
                           and taskq.is_given_up(a.outcome, a.error_class))
                    then false
               end
          into v_counts;
        continue when v_counts is null;
        if v_counts then
            update taskq.output o
               set decided = true
             where o.campaign_id = v_one.campaign_id
               and o.task_id = v_one.task_id
               and o.lease_id = v_one.lease_id;
            continue;
        end if;
        delete from taskq.output o
         where o.campaign_id = v_one.campaign_id
           and o.task_id = v_one.task_id
           and o.lease_id = v_one.lease_id
     returning o.digest, o.size, o.token_id into v_gone;
        perform from taskq.output o where o.digest = v_gone.digest;
        if not found then  -- two attempts of a task may leave the same files
            digests := digests || v_gone.digest;
        end if;
        perform taskq.use_output(
            v_one.campaign_id, v_gone.token_id, v_one.task_id, -v_gone.size);
        delete from taskq.output_use u
         where u.campaign_id = v_one.campaign_id
           and u.token_id = v_gone.token_id
           and u.part = v_one.task_id % 16
           and u.bytes <= 0;
    end loop;
    if v_seen < p_most then
        last_campaign := null;
        last_task := null;
    end if;
end
$$;
