select taskq.is_input(%(path)s, %(digest)s) as is_input
