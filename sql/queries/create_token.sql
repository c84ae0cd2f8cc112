select taskq.create_token(
    %(kind)s::taskq.token_kind, %(token_name)s, %(hash)s, %(paths)s::text[], %(lifetime_s)s,
    %(networks)s::cidr[], %(max_uses)s::integer, %(max_output_bytes)s::bigint,
    %(at_site)s)
