-- submitter: makes and changes campaigns, gives them inputs, adds tasks; besides what a reader may do.
-- It says what agents execute, in any campaign.
grant execute on function taskq.create_campaign, taskq.change_campaign, taskq.add_input,
    taskq.remove_input, taskq.index_results, taskq.fill_index, taskq.drop_index, taskq.submit, taskq.seed_tasks, taskq.begin_blob, taskq.put_blob_part, taskq.end_blob
    to {login};
