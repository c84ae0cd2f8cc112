"""Access to PostgreSQL: addresses, connections, statements, schema, roles, audit.

`address` parses addresses and translates errors, `connections` runs statements by name, `queries`
reads their texts from `sql/`. `migrations`, `roles` and `audit` administer a database as a whole.
psycopg is imported here only.
"""
