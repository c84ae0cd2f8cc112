insert into taskq.blob_part (blob_id, part, data) values (%(blob)s, %(part)s, %(data)s)
