"""Needs a PBS that keeps a history, whose node is this machine, and another user than root.

It is that of the commands on PATH; run by `make test-pbs`.
"""

from __future__ import annotations

import os

from tests.fixtures.gateways import start_gateway  # noqa: F401  # a fixture, for the tests here
from tests.helpers.batch_commands import run_command


def delete_job(number: str) -> None:
    """End a job, as an operator does."""
    run_command(("qdel", number), os.environ)
