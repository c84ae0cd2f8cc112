-- What readers may read: everything but secrets. No hash of a token, no key of a session, no lease, no secret of the
-- front.
grant select (pilot_id, name, key, path, driver, settings, status, paused_why, failures, failed_at,
    trouble, retry_at, next_number, looked_at, looked_from, created_at) on taskq.pilot to {login};
grant select (name, path, events, target, reach, after_s, login, created_at, attempts, trouble, retry_at,
    sent_at, sent_from) on taskq.notify_rule to {login};
grant select on taskq.installation, taskq.campaign, taskq.recipe, taskq.spec, taskq.blob, taskq.blob_part,
    taskq.front_refiller, taskq.front_list, taskq.brake, taskq.refusal, taskq.refused, taskq.refused_hello,
    taskq.ban, taskq.pilot_job, taskq.notify_event, taskq.known_trouble, taskq.watch, taskq.trend, taskq.sharing,
    taskq.gateway, taskq.stall, taskq.stopped, taskq.disk, taskq.login_role, taskq.usage, taskq.end_sum,
    taskq.summed to {login};
grant select (host, reaches, until) on taskq.notify_sender to {login};
grant select (only_one, until) on taskq.keeper to {login};
grant select on taskq.set_back, taskq.maintenance, taskq.act to {login};
grant select on taskq.removed_sum, taskq.retention to {login};
grant select (campaign_id, task_id, session_id, claimed_at, due_at, status, attempt, priority, failures,
    losses) on taskq.task to {login};
grant select (campaign_id, task_id, status, session_id, claimed_at, due_at, attempt, failures, losses)
    on taskq.state to {login};
grant select on taskq.span to {login};
grant select on taskq.limit_total to {login};
grant select (session_id, first_id, campaign_id, claimed_at, tasks) on taskq.bundle to {login};
grant select (campaign_id, task_id, attempt, exit_code, session_id, claimed_at, ended_at, outcome,
    error_class, error, result, phases, tail, refused, recipe) on taskq.attempt to {login};
grant select (session_id, campaign_id, opened_at, heartbeat_at, lease_s, ended_at, expired, slots, pid,
    agent, host, site, release, offers, token_id, drain, address,
    said, left_why, exit_code, attempts, suspect, banned) on taskq.session to {login};
grant select (token_id, kind, name, paths, networks, max_uses, uses, created_at, expires_at, revoked_at,
    max_output_bytes, at_site)
    on taskq.token to {login};
grant select (name, epoch, pool_s, begun_at) on taskq.front to {login};
