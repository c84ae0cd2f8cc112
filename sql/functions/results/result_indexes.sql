-- result_indexes(path): the indexes of results of a campaign and of those below it, ordered by path.
--
-- field: such as result.score. seen, done: how many results it has, and how many there are; it is complete if
-- these are equal. ranked: those with a number there. large: references to blobs, whose number the database
-- does not know: with any of these, the index serves only callers that rank references as they are.
-- Error TQ404: no such campaign. Index: campaign_path_key, result_index_pkey.
-- @roles reader
-- @standby yes
-- @gateway manager
create or replace function taskq.result_indexes(p_path text)
returns table (
    campaign text, field text, seen bigint, done bigint, ranked bigint, large bigint, created_at timestamptz
)
language plpgsql stable
as $$
begin
    perform taskq.campaign_id(p_path);
    return query
        select c.path, i.part || '.' || i.name, i.seen, taskq.done_count(i.campaign_id), i.ranked, i.large,
               i.created_at
          from taskq.result_index i  -- 16 at most
         cross join lateral taskq.campaign_of(i.campaign_id) c
         where not i.dropped
           and taskq.at_or_below(c.path, p_path)
         order by c.path, i.part, i.name;
end
$$;
