"""Some problems planted for real; `make drill` plants all."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from benchmarks.own_server import own_server
from taskq.embedded import Server
from tests.drill.run import ALL, rounds, run_round


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """Give a server of its own."""
    with own_server() as started:
        yield started


@pytest.mark.thorough
@pytest.mark.longer
def test_explain_names_planted_problems_with_remedies_that_work(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    """What takes no statistics is named, whatever the load; nobody else is accused."""
    caplog.set_level(logging.CRITICAL, logger="psycopg.pool")
    verdict = run_round(server, "1", ["paused", "no-tag", "cap-of-campaign"])
    assert [
        (finding.kind.name, finding.trouble)
        for finding in verdict.findings
        if finding.healed_s is None
    ] == []
    assert verdict.accused == []


def test_each_kind_is_planted_once() -> None:
    """A seed draws which problems share a queue; at least thirty kinds are there."""
    planted = [name for names in rounds(3, sorted(ALL), 4) for name in names]
    assert sorted(planted) == sorted(ALL)
    assert len(planted) >= 30
    assert [*rounds(3, sorted(ALL), 4)] != [*rounds(4, sorted(ALL), 4)]
