-- The owners of campaigns at and below a path, those first of whose tasks most wait or run.
select owner, campaigns, waiting, working, bytes, max_running, max_waiting, max_bytes, weight, is_full
  from taskq.owners(%(path)s)
 order by waiting + working desc, owner
