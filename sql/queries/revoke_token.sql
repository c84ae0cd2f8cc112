select sessions, attempts from taskq.revoke_token(%(token_name)s)
