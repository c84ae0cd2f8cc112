-- results_text(campaign, after, limit): a page of accepted results as one text, in the order of task ids, a line of
-- JSON for each.
--
-- last: the task of the last line. No row: there are no more. The members are put together as text:
-- `json_build_object` takes a quarter longer. Index: attempt_pkey, spec_pkey, session_pkey.
-- @roles reader
-- @standby yes
-- @gateway no
-- @plan generic by-scan
create or replace function taskq.results_text(p_campaign bigint, p_after bigint, p_limit integer)
returns table (last bigint, lines text)
language plpgsql stable
as $$
begin
    return query
        select max(r.task_id),
               string_agg(
                   concat(
                       '{"task":', r.task_id, ',"key":', to_json(r.key), ',"attempt":', r.attempt,
                       ',"host":', to_json(r.host),
                       ',"seconds":', taskq.ran_s(r.phases, r.claimed_at, r.ended_at),
                       ',"payload":', r.payload, ',"result":', coalesce(r.result, 'null'), '}'),
                   e'\n' order by r.task_id)
          from taskq.results_page_of(p_campaign, p_after, p_limit) r
        having count(*) > 0;
end
$$;
