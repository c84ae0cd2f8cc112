"""The seam between an agent and its queue: four calls, in process or over HTTP."""

from __future__ import annotations

from typing import Protocol

from taskq_agent.protocol import Answer, Beat, BeatAnswer, Hello, Request, Welcome


class Transport(Protocol):
    """Speaks with the queue. Each call may be repeated with the same argument.

    All raise `TransportFailed` when no answer came (repeat it), `Refused` when there is no
    point in repeating, and the middle two `SessionLost` when the session is void. `beat` is
    called from a thread of its own, beside the others.
    """

    def open(self, hello: Hello) -> Welcome:
        """Open a session, or find the one that this key has opened."""
        ...

    def exchange(self, request: Request) -> Answer:
        """Report and claim in one round trip."""
        ...

    def beat(self, beat: Beat) -> BeatAnswer:
        """Keep the session alive."""
        ...

    def close(self, session: int) -> None:
        """End the session; what it still holds is handed to somebody else at once."""
        ...
