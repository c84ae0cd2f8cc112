"""A queue that is reached through a gateway, with a manager's token, instead of PostgreSQL.

`GatewayQueries` runs the same named statements as a connection to PostgreSQL does, so that all that
needs no more than these works over both; what a gateway does not offer raises `NotOverGateway`. It
knows no statement: what is offered, and to whom, is decided there. Requests are repeated as far as
that is harmless, so a gateway may restart meanwhile.
"""
