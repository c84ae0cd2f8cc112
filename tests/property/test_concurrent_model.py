"""The queue against its model while transactions are open: who sees what, passes over, or waits."""

from __future__ import annotations

import logging
import time

from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from taskq.database import Database
from tests.property.concurrent_agents import ConcurrentAgents
from tests.property.concurrent_upkeep import ConcurrentUpkeep

log = logging.getLogger(__name__)


class ConcurrentMachine(ConcurrentAgents, ConcurrentUpkeep):
    """Each step is one function in a transaction of its own, which may stay open for a while."""


def test_open_transactions_do_what_the_model_says(database: Database) -> None:
    """Whatever is under way, waits, commits or is undone."""
    ConcurrentMachine.database = database
    soak = settings.get_current_profile_name() == "soak"
    brief = settings(max_examples=40, stateful_step_count=30)
    begun = time.monotonic()
    try:
        run_state_machine_as_test(ConcurrentMachine, settings=settings.default if soak else brief)
    finally:
        log.info("%d steps in %.0f s", ConcurrentMachine.steps, time.monotonic() - begun)
