"""Patroni's leader is frozen, as a suspended machine is: it answers nothing, and goes on later."""

from __future__ import annotations

import logging
import time
from pathlib import Path

from tests.engines.load import SAID, Load
from tests.engines.test_patroni import Patroni, patroni  # noqa: F401  # a fixture
from tests.fixtures.gateways import StartGateway, opened
from tests.integration.gateway.site import upkeep

log = logging.getLogger(__name__)


def test_leader_that_is_frozen_costs_no_task(
    patroni: Patroni,  # noqa: F811  # the fixture
    start_gateway: StartGateway,
    tmp_path: Path,
) -> None:
    """Agents go on with the next one, and nothing runs twice when the frozen one is back."""
    gateway = start_gateway(on=patroni.dsn, expected=SAID)
    with opened(patroni.dsn) as queue, upkeep(patroni.dsn):
        load = Load(queue, gateway, tmp_path)
        with load.running():
            leader = patroni.leader()
            assert leader is not None
            began = time.monotonic()
            with leader.frozen():
                load.until(lambda: patroni.leader() not in {None, leader}, patroni.said)
                log.info("another leader after %.1f s", time.monotonic() - began)
                load.goes_on()
                log.info("tasks are begun again after %.1f s", time.monotonic() - began)
            load.goes_on()
            load.until(patroni.is_whole, patroni.said)
        load.assert_whole(once=True)
