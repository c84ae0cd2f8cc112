select taskq.remove_input(%(path)s, %(input)s)
