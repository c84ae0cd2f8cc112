copy taskq.task (campaign_id, task_id, priority) from stdin
