-- agent: an agent beside the database, in any language; it needs no token.
grant execute on function taskq.open_session, taskq.heartbeat, taskq.claim, taskq.report, taskq.complete,
    taskq.fail, taskq.release to {login};
