"""PostgreSQL: how it is reached, which statements it is sent, how its schema is kept.

`address` says where a server is and what its errors mean, `connections` runs statements by their
names, `queries` reads their texts from `sql/`. `migrations`, `roles` and `audit` look after a
database as a whole. psycopg is imported here only.
"""
