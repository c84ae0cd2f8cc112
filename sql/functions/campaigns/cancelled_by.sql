-- cancelled_by(campaign): which of a campaign and those above it are cancelled, or archived, as text from the top:
-- 'cancelled: /a and /a/b'; null: none. For messages of other functions; not for clients. Index: campaign_pkey.
create or replace function taskq.cancelled_by(p_campaign bigint)
returns text
language plpgsql stable
as $$
begin
    return (
        select a.status || ': ' || string_agg(a.path, ' and ' order by a.path)
          from taskq.campaign c
          join taskq.campaign a on a.campaign_id = any (c.lineage)
         where c.campaign_id = p_campaign
           and a.status >= 'cancelled'
         group by a.status
         order by a.status desc
         limit 1);
end
$$;
