"""Embedded PostgreSQL, and a Redis for the front, without an installed server.

installation   which PostgreSQL binaries to use, and a readable copy where an account needs one
account        the user that runs the servers, and their logs: PostgreSQL refuses to run as root
home           the folder of all files, and its lock
cluster        initdb, all or nothing
settings       postgresql.conf, pg_hba.conf, pg_ident.conf
postmaster     the server process: check, start and stop it
working        whether a server runs a statement
server         the above in order: `Server.up`, `down` and `status`
redis_server   the same verbs for Redis: which program to use, start and stop it
"""

from __future__ import annotations

from taskq.embedded.installation import Installation, locate
from taskq.embedded.redis_server import RedisInfo, RedisServer
from taskq.embedded.server import Server, ServerInfo

__all__ = ["Installation", "RedisInfo", "RedisServer", "Server", "ServerInfo", "locate"]
