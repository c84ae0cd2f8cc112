-- gateway: lets agents in by their tokens, serves them, and does for managers what theirs are for.
grant execute on function taskq.enrol_many, taskq.identify, taskq.claimable, taskq.name_ahead,
    taskq.is_input, taskq.set_status, taskq.cancel, taskq.submit, taskq.seed_tasks,
    taskq.note_gateway, taskq.owners to {login};
grant select (session_id, ended_at) on taskq.session to {login};
grant select on taskq.brake to {login};
