select taskq.fold()
