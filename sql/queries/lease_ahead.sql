select entries, rank
  from taskq.lease_ahead(%(epoch)s, %(campaign)s, %(most)s, %(before)s)
