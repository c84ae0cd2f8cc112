"""The seam between an agent and its queue: four calls and two streams, in process or over HTTP."""

from __future__ import annotations

from typing import Iterator, Protocol

from taskq_agent.protocol import Answer, Heartbeat, HeartbeatAnswer, Hello, Request, Welcome

MAX_BLOB_BYTES = 67_108_864


class Blobs(Protocol):
    """Where shared inputs come from and large results go to; a blob is named by its SHA-256.

    Called from the threads of all slots. Both raise `TransportFailed` when the transfer broke
    (repeat it) and `Refused` when there is no point in repeating: no such blob, or one that is
    not taken.
    """

    def read_blob(self, digest: str, offset: int) -> Iterator[bytes]:
        """Yield a blob from an offset to its end, in chunks of 1 MiB at most.

        What comes is not verified. Errors come while it is iterated over.
        """
        ...

    def write_blob(self, digest: str, data: bytes) -> None:
        """Store a blob of at most `MAX_BLOB_BYTES`; one that is there already is no error."""
        ...


class Transport(Blobs, Protocol):
    """Speaks with the queue. Each call may be repeated with the same argument.

    All four raise `TransportFailed` when no answer came (repeat it), `Refused` when there is no
    point in repeating, and the middle two `SessionLost` when the session is void. `beat` is
    called from a thread of its own, beside the others.
    """

    def open(self, hello: Hello) -> Welcome:
        """Open a session, or find the one that this key has opened."""
        ...

    def exchange(self, request: Request) -> Answer:
        """Report and claim in one round trip."""
        ...

    def cancel_exchange(self, request: Request) -> None:
        """Let the exchange of this claim fail soon, begun or not, if it may be kept waiting.

        Called from any thread.
        """
        ...

    def heartbeat(self, heartbeat: Heartbeat) -> HeartbeatAnswer:
        """Keep the session alive."""
        ...

    def close(self, session: int, reason: str = "", exit_code: int = 0) -> None:
        """End the session; what it still holds is handed to somebody else at once.

        reason, exit_code: of the agent's leaving, for people.
        """
        ...
