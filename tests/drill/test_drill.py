"""Some problems planted for real; `make drill` draws many."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from benchmarks.own_server import own_server
from taskq.embedded import Server
from tests.drill.calm import Calm
from tests.drill.drawn.case import CAUSES
from tests.drill.drawn.drawing import ALL as PAIRS
from tests.drill.drawn.drawing import Choice, carry_out, drawn
from tests.drill.drawn.forms import ALWAYS, FORMS
from tests.drill.drawn.report import table
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


@pytest.mark.thorough
@pytest.mark.longer
def test_drawn_problem_is_named_and_its_remedy_helps(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    """What somebody has set takes no statistics: it is named, however slow the machine is."""
    caplog.set_level(logging.CRITICAL, logger="psycopg.pool")
    (finding,) = carry_out(server, "drawn", [("people", ALWAYS)], patience=5.0)
    assert (finding.outcome, finding.lacks, finding.accused) == ("named", [], [])
    assert finding.helped_s is not None
    assert finding.problem.what.startswith("taskq campaign ")
    assert "| people | 1 named |  |  |  |  |" in table([finding])


def test_draws_are_by_seed_and_take_all_combinations_before_any_comes_again() -> None:
    """Every cause has every form; with two at a time, no two of a farm have one cause."""
    cases = [pair for group in drawn(3, len(PAIRS), 2) for pair in group]
    assert sorted(cases) == sorted((cause, form) for cause in CAUSES for form in FORMS)
    assert len(cases) >= 40
    assert all(len({cause for cause, _ in it}) == len(it) for it in drawn(3, len(PAIRS), 2))
    assert [*drawn(3, 9)] == [*drawn(3, 9)] != [*drawn(4, 9)]


def test_choice_draws_what_is_asked_for_if_it_is_among_the_rest() -> None:
    """So that a case can be repeated with one symptom."""
    names = ["segfault", "hangs", "slow"]
    assert {Choice(f"{seed}", "hang").choice(names) for seed in range(9)} == {"hangs"}
    assert {Choice(f"{seed}", "other").choice(names) for seed in range(40)} == {*names}


def test_calm_farm_is_silent_only_without_reasons_of_trouble() -> None:
    """What is busy is no trouble; one trouble counts once, whatever its figures."""
    calm = Calm("steady")
    busy = {"code": "busy", "text": "4 tasks wait for a slot.", "lost": 0, "blocks": False}
    gone = {"code": "capacity-lost", "text": "4 slots are gone.", "lost": 4, "blocks": False}
    calm.hear([busy], 1.0)
    assert calm.is_silent
    calm.hear([busy, gone], 2.0)
    calm.hear([gone | {"text": "5 slots are gone."}], 3.0)
    assert [*calm.said.values()] == ["after 2 s: capacity-lost: 4 slots are gone."]


def test_each_kind_is_planted_once() -> None:
    """A seed draws which problems share a queue; at least thirty kinds are there."""
    planted = [name for names in rounds(3, sorted(ALL), 4) for name in names]
    assert sorted(planted) == sorted(ALL)
    assert len(planted) >= 30
    assert [*rounds(3, sorted(ALL), 4)] != [*rounds(4, sorted(ALL), 4)]
