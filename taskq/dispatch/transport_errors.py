"""Translation of the queue's errors into those that an agent's transport raises."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from taskq.errors import SchemaError, ServerUnsuitable, SessionEnded, TaskqError, Unavailable
from taskq_agent.errors import Refused, SessionLost, TransportFailed


@contextmanager
def as_transport_errors() -> Iterator[None]:
    """Turn the errors of the queue into those of a transport."""
    try:
        yield
    except (Unavailable, ServerUnsuitable, SchemaError) as error:
        # An agent can do nothing about these but wait: an upgrade that is under way, say, may have
        # taken a function away for a moment.
        raise TransportFailed(str(error)) from error
    except SessionEnded as error:
        raise SessionLost(str(error)) from error
    except TaskqError as error:
        raise Refused(str(error)) from error
