-- removed_campaigns(path, below, most): what is known of campaigns that were removed, the latest first.
--
-- below: those at the path and below it; otherwise those at the path, or above it where no campaign is now.
-- removed_by: a login or a token. campaigns, done, failed, cancelled: of the whole tree that was removed. archive, digest:
--     where it was archived; null: nowhere. Of a campaign above those of the caller's token only path and removed_at are
--     there.
-- Index: stone_pkey, campaign_path_key.
-- @roles reader
-- @standby yes
-- @gateway manager
-- @plan generic by-key
create or replace function taskq.removed_campaigns(p_path text, p_below boolean, p_most integer)
returns table (
    path text,
    removed_at timestamptz,
    removed_by text,
    owner text,
    created_at timestamptz,
    campaigns integer,
    done bigint,
    failed bigint,
    cancelled bigint,
    archive text,
    digest text
)
language plpgsql stable
as $$
begin
    if p_below then
        return query
            select s.path, s.removed_at, s.removed_by, s.owner, s.created_at, s.campaigns, s.done, s.failed, s.cancelled,
                   s.archive, s.digest
              from taskq.stone s
             where (s.path = p_path
                    or s.path > rtrim(p_path, '/') || '/' and s.path < rtrim(p_path, '/') || '0')
               and s.removed_at is not null
             order by s.removed_at desc, s.path
             limit p_most;
        return;
    end if;
    return query
        select s.path, s.removed_at, k.removed_by, k.owner, k.created_at, k.campaigns, k.done, k.failed, k.cancelled,
               k.archive, k.digest
          from generate_series(2, length(p_path)) as n (place)
          join taskq.stone s on s.path = left(p_path, n.place)
          left join lateral (select s.* where taskq.token_covers(s.path)) k on true
         where (n.place = length(p_path) or substr(p_path, n.place + 1, 1) = '/')
           and s.removed_at is not null
           and (s.path = p_path or not exists (select from taskq.campaign c where c.path = s.path))
         order by s.removed_at desc, s.path
         limit p_most;
end
$$;
