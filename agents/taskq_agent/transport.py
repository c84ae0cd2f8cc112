"""Interface between an agent and its queue: its session's calls, and blobs; direct or over HTTP."""

from __future__ import annotations

from typing import Iterator, Optional, Protocol

from taskq_agent.protocol import (
    SILENT_END,
    Answer,
    Heartbeat,
    HeartbeatAnswer,
    Held,
    Hello,
    Input,
    Request,
    SessionEnd,
    Welcome,
)

MAX_BLOB_BYTES = 67_108_864


class Blobs(Protocol):
    """Store of shared inputs and large results; a blob is named by its SHA-256.

    Called from the threads of all slots. All methods raise `TransportFailed` if the transfer broke
    (repeat it) and `Refused` if repeating cannot help: there is no such blob, or the store does not
    accept it.
    """

    def read_blob(self, digest: str, offset: int) -> Iterator[bytes]:
        """Yield a blob from an offset to its end, in chunks of 1 MiB at most.

        The data is not verified. Errors are raised during the iteration.
        """
        ...

    def write_blob(self, digest: str, data: bytes) -> None:
        """Store a blob of at most `MAX_BLOB_BYTES`; storing it again is not an error."""
        ...


class TaskBlobs(Blobs, Protocol):
    """Blobs that may be checkpoints or output files of tasks. Errors are as for `Blobs`."""

    def find_checkpoint(self, held: Held) -> Optional[Input]:
        """Return the blob with the last checkpoint of a task that this agent holds, if any."""
        ...

    def memory_failures(self, held: Held) -> int:
        """Return how often a task that this agent holds has run out of memory."""
        ...

    def save_checkpoint(self, held: Held, saved: Input) -> bool:
        """Make a stored blob the checkpoint of a task; False if the lease is no longer valid."""
        ...

    def save_output(self, held: Held, saved: Input) -> bool:
        """Make a stored blob the output files of an attempt; False if nobody waits for them.

        Raises Refused also if there is no room for them.
        """
        ...


class Transport(TaskBlobs, Protocol):
    """Calls the queue. Each call may be repeated with the same arguments.

    `open`, `exchange`, `heartbeat` and `close` raise `TransportFailed` when no answer came (repeat
    it) and `Refused` when repeating cannot help; `exchange` and `heartbeat` raise `SessionLost`
    when the session is no longer valid. `heartbeat` is called from a thread of its own,
    concurrently with the others.
    """

    def open(self, hello: Hello) -> Welcome:
        """Open a session, or find the one that this key has opened."""
        ...

    def exchange(self, request: Request) -> Answer:
        """Report and claim in one round trip."""
        ...

    def cancel_exchange(self, request: Request) -> None:
        """Make the exchange of this claim fail soon, begun or not, if it is a long poll.

        Called from any thread.
        """
        ...

    def heartbeat(self, heartbeat: Heartbeat) -> HeartbeatAnswer:
        """Keep the session alive."""
        ...

    def close(self, session: int, end: SessionEnd = SILENT_END) -> None:
        """End the session; other agents get its held tasks at once."""
        ...
