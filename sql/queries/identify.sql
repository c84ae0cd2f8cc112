select hash, token_id, session_id, path, offers, ended, paths
  from taskq.identify(%(hashes)s::bytea[])
