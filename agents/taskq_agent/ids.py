"""What messages name things by, and count, with the range of each."""

from __future__ import annotations

import re
from typing import Annotated, Tuple

from taskq_agent.wire import Most

_LEASE = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_LEASE_CHARS = Most(36)

# In answers too: an agent gets these from a gateway and sends them back later. An answer with any
# other value was damaged on the way: sent back, it would make the gateway refuse all that goes with
# it.
Id = Annotated[int, range(1 << 63)]
LeaseId = Annotated[str, _LEASE, _LEASE_CHARS]
MaybeLease = Annotated[str, re.compile(f"({_LEASE.pattern})?"), _LEASE_CHARS]

#: A campaign, and its revision.
Revision = Tuple[Id, Id]
Count = Annotated[int, range(1 << 31)]
ExitCode = Annotated[int, range(-(1 << 31), 1 << 31)]
