select taskq.put_blob_part(%(blob)s, %(part)s, %(data)s)
