-- report(path, task, lease, outcome, details): reports how one attempt ended, for clients that use SQL.
--
-- outcome: done, failed or released. details: a JSON object with any of result, retry, started,
--     error_class, error, exit_code, tail, phases, recipe.
-- Result: the verdict: accepted, duplicate, superseded or unknown; see settle(). All are final.
-- Error TQ404: no such campaign.
-- @roles agent
create or replace function taskq.report(
    p_path text,
    p_task bigint,
    p_lease uuid,
    p_outcome taskq.attempt_outcome,
    p_details jsonb default '{}'
)
returns text
language plpgsql
as $$
declare
    v_answer constant record := taskq.exchange(
        taskq.campaign_id(p_path),
        jsonb_build_array(p_details || jsonb_build_object(
            'task', p_task, 'lease', p_lease, 'outcome', p_outcome))::text,
        null, null, null);
begin
    return v_answer.acks[1];
end
$$;
