select error, line from taskq.latest_failure(%(path)s, %(host)s, %(error_class)s, %(most)s)
