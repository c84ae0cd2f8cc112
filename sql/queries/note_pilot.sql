select taskq.note_pilot(
    %(pilot)s, %(holder)s::uuid, %(jobs)s::jsonb, %(failures)s::integer, %(trouble)s::text,
    %(retry_s)s::double precision, %(pause_why)s::text) as gone
