select taskq.name_ahead(
           %(sessions)s::bigint[], %(campaigns)s::bigint[], %(tasks)s::bigint[], %(leases)s::uuid[])
       as named
