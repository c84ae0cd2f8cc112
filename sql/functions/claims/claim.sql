-- claim(path, session, lease, want): claims tasks of one campaign, for clients that use SQL.
--
-- lease: a new random id of the claim; idempotent: the same id returns the same tasks again.
-- Result: one row for each task, none when nothing is waiting.
-- Error TQ404: no such campaign. Error TQ410: the session has ended. See take().
-- @roles agent
create or replace function taskq.claim(
    p_path text,
    p_session bigint,
    p_lease uuid,
    p_want integer default 1
)
returns table (task_id bigint, attempt integer, key text, payload jsonb)
language plpgsql
as $$
declare
    v_answer constant record := taskq.exchange(
        taskq.campaign_id(p_path), null, array[p_session], array[p_lease], array[p_want]);
begin
    if v_answer.refused is not null then
        raise exception 'session % has ended; open another', p_session using errcode = 'TQ410';
    end if;
    return query
        select (t ->> 1)::bigint, (t ->> 2)::integer, t ->> 3, (t -> 4)::jsonb
          from json_array_elements(v_answer.tasks) t;
end
$$;
