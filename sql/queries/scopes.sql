-- How many agents serve which campaign with all below it. Index: session_open.
select campaign_id, count(*) as agents
  from taskq.session
 where ended_at is null
   and session_id <> 0
 group by campaign_id
