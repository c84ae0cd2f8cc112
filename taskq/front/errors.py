"""What can go wrong between a front and those who use it."""

from __future__ import annotations

from taskq.errors import Unavailable


class FrontDown(Unavailable):
    """The front does not answer, or not as it should; go on with PostgreSQL alone."""
