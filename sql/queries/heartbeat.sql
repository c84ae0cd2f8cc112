select campaign_id, task_id, lease_id::text
  from taskq.heartbeat(%(session)s, %(held)s::jsonb, %(pending)s::uuid[], %(drawn)s::uuid)
