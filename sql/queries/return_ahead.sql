select taskq.return_ahead(%(campaigns)s::bigint[], %(tasks)s::bigint[], %(leases)s::uuid[]) as returned
