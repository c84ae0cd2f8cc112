select name, epoch, secret, pool_s, now_ms from taskq.begin_front(%(pool_s)s)
