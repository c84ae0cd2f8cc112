-- archived_arguments(campaign): the large arguments of an archived campaign, which are blobs. Index: argument_pkey.
-- @roles operator
-- @gateway no
-- @act no: it reads
-- @plan generic by-key
create or replace function taskq.archived_arguments(p_campaign bigint)
returns table (
    digest text,
    size bigint
)
language plpgsql stable
as $$
begin
    return query
        select g.digest, g.size
          from taskq.argument g
         where g.campaign_id = p_campaign
         order by g.campaign_id, g.digest;
end
$$;
