select unfinished, unservable, reasons from taskq.left_over(%(path)s, %(offers)s::text[])
