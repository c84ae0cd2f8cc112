-- A campaign by its path, without the key that seals arguments: who has it says what agents unpickle.
-- Index: campaign_path_key.
-- @roles all
-- @standby no
-- @gateway no
select campaign_id, path, status, revision, description, handler - 'seal' as handler, params, max_attempts, max_losses,
       backoff_s, backoff_max_s, time_limit_s, weight, tags as requires, running_limit as max_running,
       max_running_per_site, on_disconnect, front,
       late_results, hedge, never_retry, max_lost_nodes, max_out_of_time, max_failure_share,
       checkpoint_bytes, checkpoint_every_s, output_bytes, output_total_bytes, cores, memory, gpus, paused_why,
       inputs, created_at, owner
  from taskq.campaign
 where path = %(path)s
