"""Route to the server that the address, a cluster or Sentinels name.

All keys of a queue are in one slot of a cluster, so one connection to one node is enough. Any other
node refuses and names that one; the route remembers it for the next connection.
"""

from __future__ import annotations

import random
import re
from typing import Final

from taskq.front.address import FrontAddress, RedisNode

#: A slot and a node follow `MOVED`; an empty host means the node that refuses.
_MOVED: Final = re.compile(r"MOVED \d{1,5} (\S{0,255}):(\d{1,5})", re.ASCII)
#: Refusals of a server that takes no writes, or no more.
_ELSEWHERE: Final = {
    "single": (),
    "cluster": ("CLUSTERDOWN", "MASTERDOWN"),
    "sentinel": ("READONLY", "MASTERDOWN"),
}


class RedisRoute:
    """The way to the server of an address."""

    def __init__(self, address: FrontAddress) -> None:
        self._address = address
        self._named: RedisNode | None = None

    def nodes(self) -> list[RedisNode]:
        """Return the nodes to try, in order: the node named last, then those of the address.

        The latter are in random order, so that a dead node does not delay every connection.
        """
        nodes = random.sample(self._address.nodes, len(self._address.nodes))
        return nodes if self._named is None else [self._named, *nodes]

    def leads_on(self, refusal: str, node: RedisNode) -> bool:
        """Tell whether to connect to another node after a refusal by this one."""
        moved = _MOVED.match(refusal)
        if moved is not None and self._address.kind == "cluster":
            self._named = RedisNode(moved[1].strip("[]") or node.host, int(moved[2]))
            return True
        elsewhere = refusal.startswith(_ELSEWHERE[self._address.kind])
        if elsewhere:
            self._named = None
        return elsewhere

    def lost(self, node: RedisNode) -> None:
        """Note that a node does not answer, so that it is no longer tried first."""
        if node == self._named:
            self._named = None
