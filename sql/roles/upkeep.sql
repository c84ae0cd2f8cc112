-- The upkeep, with that of the front: a part of the roles that run a keeper.
grant execute on function taskq.keep, taskq.keep_front, taskq.front_state, taskq.begin_front,
    taskq.frontable, taskq.lease_ahead, taskq.return_ahead, taskq.timeline, taskq.end_checkpoints,
    taskq.end_outputs, taskq.drop_archive to {login};
