select name, epoch, secret, pool_s, now_ms from taskq.front_state()
