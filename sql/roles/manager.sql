-- manager: does what managers' tokens are for, as a gateway does; besides what a submitter may do.
grant execute on function taskq.permit, taskq.set_status, taskq.cancel, taskq.retry, taskq.retriable, taskq.prioritise,
    taskq.remove_tasks, taskq.remove_campaign, taskq.hold_pilot, taskq.begin_pilot_job, taskq.note_pilot,
    taskq.set_pilot_status to {login};
