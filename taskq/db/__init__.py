"""Access to PostgreSQL: addresses, connections, statements, schema, roles, audit.

`address` parses addresses and translates errors, `connections` runs statements by name, `catalogue`
reads their texts from `sql/`. `migrations`, `roles` and `audit` administer a database as a whole.
Only this room imports psycopg.
"""
