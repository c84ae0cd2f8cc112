select taskq.drain_sessions(
           %(path)s, %(sites)s::text[], %(agents)s::text[], %(hosts)s::text[], %(dry_run)s)
