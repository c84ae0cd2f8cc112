"""How long connecting to a server may take."""

from __future__ import annotations

from typing import Final

#: Seconds for all hosts of a DSN together, so that dead ones do not exceed POOL_TIMEOUT_S.
CONNECT_TIMEOUT_S: Final = 10
POOL_TIMEOUT_S: Final = 15.0
#: Seconds for each host of a connection that only reads.
READ_TIMEOUT_S: Final = 3
