-- The ids of tasks by key. Index: spec_key_key.
select key, task_id from taskq.spec where campaign_id = %(campaign)s and key = any(%(keys)s::text[])
