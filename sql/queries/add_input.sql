select taskq.add_input(%(path)s, %(input)s, %(digest)s, %(size)s)
