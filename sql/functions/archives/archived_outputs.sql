-- archived_outputs(campaign, after, upto): the output files of accepted results, of a range of tasks, which are blobs; see
-- archived_tasks(). Those of other attempts do not count. Index: output_pkey, attempt_pkey.
-- @roles operator
-- @gateway no
-- @act no: it reads
-- @plan generic by-key
create or replace function taskq.archived_outputs(p_campaign bigint, p_after bigint, p_upto bigint)
returns table (
    task_id bigint,
    lease_id text,
    digest text,
    size bigint
)
language plpgsql stable
as $$
begin
    return query
        select o.task_id, o.lease_id::text, o.digest, o.size
          from taskq.output o
         where o.campaign_id = p_campaign
           and o.task_id > p_after
           and o.task_id <= p_upto
           and exists (select from taskq.accepted_of(o.campaign_id, o.task_id) a where a.lease_id = o.lease_id)
         order by o.campaign_id, o.task_id, o.lease_id;
end
$$;
