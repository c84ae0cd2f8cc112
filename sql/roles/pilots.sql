-- pilots: the loop that submits pilots' jobs, on a login node.
grant execute on function taskq.hold_pilot, taskq.begin_pilot_jobs, taskq.note_pilot to {login};
