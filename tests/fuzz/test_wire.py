"""A real gateway under requests of hostile agents and managers: answers, costs, and what is left.

`make soak` goes on for hours, with fresh seeds.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings

from tests.fixtures.gateways import GatewayProcess, opened
from tests.fuzz.farm import EXPECTED, Farm
from tests.fuzz.wire import ALL_STATEMENTS, CONVERSATIONS, Ask

pytestmark = pytest.mark.thorough

#: Conversations, so few that it ends in time on a busy machine too.
EXAMPLES: Final = 75


@pytest.fixture
def farm(dsn: str, tmp_path: Path) -> Iterator[Farm]:
    """Give campaigns at a gateway of their own."""
    gateway = GatewayProcess(dsn, tmp_path, "--lease", "3600", expected=EXPECTED, keeper=True)
    try:
        with opened(dsn) as queue:
            yield Farm(queue, gateway, tmp_path)
        gateway.stop()
    finally:
        gateway.kill()


def test_no_request_costs_much_or_anybody_else(farm: Farm) -> None:
    """Each answer is documented and in time, the queue stays right, and others get on."""
    soak = settings.get_current_profile_name() == "soak"
    how = settings.default if soak else settings(max_examples=EXAMPLES, database=None)

    # A conversation is short, and what is found may not come again: it is shown as it was.
    @settings(how, phases=[Phase.generate], suppress_health_check=[*HealthCheck])
    @given(asks=CONVERSATIONS)
    def talk(asks: list[Ask]) -> None:
        farm.say(asks)

    with farm.working():
        # The same ones each time, so that the outcome is, too.
        talk() if soak else seed(1)(talk)()
    farm.check()
    farm.check_exports()


def test_every_offered_statement_is_answered_as_documented(farm: Farm) -> None:
    """Each once at least, next to uploads and archives, which the conversations above have too."""

    @seed(1)
    @settings(
        max_examples=2, database=None, phases=[Phase.generate], suppress_health_check=[*HealthCheck]
    )
    @given(asks=ALL_STATEMENTS)
    def talk(asks: list[Ask]) -> None:
        farm.say(asks)

    with farm.working():
        talk()
    farm.check()
