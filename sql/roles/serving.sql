-- What serves tasks: a part of the roles of agents beside the database and of gateways.
grant usage on schema taskq to {login};
grant execute on function taskq.exchange, taskq.settle_many, taskq.beat, taskq.note_updates, taskq.drain_reasons,
    taskq.end_session, taskq.end_sessions, taskq.servable, taskq.counts, taskq.left_over, taskq.begin_blob, taskq.put_blob_part, taskq.end_blob,
    taskq.timeline, taskq.find_checkpoint, taskq.save_checkpoint, taskq.save_output,
    taskq.drop_archive to {login};
grant select on taskq.installation, taskq.campaign, taskq.blob, taskq.blob_part to {login};
