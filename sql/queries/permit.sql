select kind, within
  from taskq.permit(
      %(hash)s, %(kind)s, %(paths)s::text[], %(campaigns)s::bigint[], %(quiet)s, %(timeout_s)s)
