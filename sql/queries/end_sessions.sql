select taskq.end_sessions(%(sessions)s::bigint[], %(whys)s::text[], %(exit_codes)s::integer[])
