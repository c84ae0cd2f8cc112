-- archived_campaigns(path): the campaigns of an archive, in the order of their paths; see archived_tasks().
--
-- settings: as campaign_settings() has them. done, failures and the others: see counts(); each its own.
-- Index: campaign_path_key, archive_pkey, and those of counts().
-- @roles operator
-- @gateway no
-- @act no: it reads
-- @plan generic by-key
create or replace function taskq.archived_campaigns(p_path text)
returns table (
    campaign_id bigint,
    path text,
    status text,
    owner text,
    created_at timestamptz,
    settings text,
    inputs text,
    recipe integer,
    hedged bigint,
    payload_bytes integer,
    done bigint,
    failed bigint,
    cancelled bigint,
    failures bigint,
    losses bigint
)
language plpgsql stable
as $$
begin
    return query
        select c.campaign_id, c.path, coalesce(a.status_before, c.status)::text, c.owner, c.created_at,
               taskq.campaign_settings(c.path)::text, c.inputs::text, c.recipe, c.hedged, c.payload_bytes,
               n.done, n.failed, n.cancelled, n.failures, n.losses
          from taskq.counts(p_path, null) n
         cross join lateral taskq.campaign_of(n.campaign_id) c
          left join taskq.archive a on a.campaign_id = c.campaign_id
         order by c.path;
end
$$;
