"""The queue's errors as those of agents' transports."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from taskq.model.errors import SchemaError, ServerUnsuitable, SessionEnded, TaskqError, Unavailable
from taskq_agent.errors import Refused, SessionLost, TransportFailed


@contextmanager
def as_transport_errors() -> Iterator[None]:
    """Translate the queue's errors raised in the block.

    `TransportFailed`: repeat the call later. `SessionLost`: open a new session. `Refused`: do not
    repeat it.
    """
    try:
        yield
    except (Unavailable, ServerUnsuitable, SchemaError) as error:
        # An agent can only wait: an upgrade, for example, may have removed a function for a moment.
        raise TransportFailed(str(error)) from error
    except SessionEnded as error:
        raise SessionLost(str(error)) from error
    except TaskqError as error:
        raise Refused(str(error)) from error
