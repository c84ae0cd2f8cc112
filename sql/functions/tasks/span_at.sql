-- span_at(campaign, task): the first id of the last span that begins at or below an id; 0 if none does. Spans do not
-- overlap, so only this one and those above it may hold tasks beyond the id. A part of functions that page through
-- spans; not for clients.
--
-- Index: span_pkey.
create or replace function taskq.span_at(p_campaign bigint, p_task bigint)
returns bigint
language sql stable
as $$
    select coalesce((select n.first_id
                       from taskq.span n
                      where n.campaign_id = p_campaign
                        and n.first_id <= p_task
                      order by n.campaign_id desc, n.first_id desc
                      limit 1), 0)
$$;
