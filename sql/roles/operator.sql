-- operator: steers what is there: campaigns, tasks, agents, tokens, the front, the upkeep; besides what
-- a reader may do.
grant execute on function taskq.set_status, taskq.cancel, taskq.retry, taskq.retriable, taskq.prioritise,
    taskq.remove_tasks, taskq.remove_campaign, taskq.remove_unused_blobs, taskq.drain_sessions, taskq.ban, taskq.unban,
    taskq.create_token, taskq.revoke_token, taskq.set_quota, taskq.give_campaign, taskq.share_by_owner,
    taskq.recover, taskq.create_pilot,
    taskq.set_pilot_status, taskq.create_notify_rule, taskq.remove_notify_rule,
    taskq.test_notify_rule, taskq.note_events, taskq.take_messages, taskq.end_message to {login};
