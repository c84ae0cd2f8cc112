-- archived_trends(campaign): how an archived campaign went, a point a minute or less. Index: trend_pkey.
-- @roles operator
-- @gateway no
-- @act no: it reads
-- @plan generic by-key
create or replace function taskq.archived_trends(p_campaign bigint)
returns table (
    minute integer,
    done bigint,
    failed bigint,
    failures bigint,
    unfinished bigint,
    working integer,
    agents integer
)
language plpgsql stable
as $$
begin
    return query
        select t.minute, t.done, t.failed, t.failures, t.unfinished, t.working, t.agents
          from taskq.trend t
         where t.campaign_id = p_campaign
         order by t.campaign_id, t.minute;
end
$$;
