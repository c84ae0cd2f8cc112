-- pilots: the loop that submits pilots' jobs, on a login node.
grant execute on function taskq.hold_pilot, taskq.begin_pilot_job, taskq.note_pilot to {login};
