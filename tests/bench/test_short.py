"""Every case of the benchmark works, and what does not depend on time is as it must be."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from benchmarks import cases, plot, report
from benchmarks.machine import Machine
from benchmarks.scale import SHORT
from benchmarks.stage import Bench
from taskq.db.connections import Database

pytestmark = pytest.mark.thorough


@pytest.fixture
def bench(server_dsn: str, tmp_path: Path) -> Iterator[Bench]:
    with closing(Database(server_dsn).open()) as server:
        yield Bench(server, tmp_path, SHORT, lambda _: None)


# There may be no PgBouncer, no valgrind, and a server tells only once a second what it has touched.
MAY_BE_MISSING = {"pooler", "instructions", "snapshot"}


@pytest.mark.parametrize("name", cases.CASES)
def test_case_finds_figures_and_reaches_what_no_busy_machine_can_miss(
    bench: Bench, name: str
) -> None:
    """Each case says what it found, and goals that count rows or differences are reached."""
    findings = list(cases.run(bench, [name]))
    assert findings
    for found in findings:
        assert found.case == name
        if found.ours is None:
            assert name in MAY_BE_MISSING
            assert found.note.startswith("not measured: ")
            continue
        assert math.isfinite(found.ours)
        if found.ratio is not None:
            assert found.limit is not None
            assert found.ratio.least <= found.ratio.median <= found.ratio.most
        if found.goal is not None and not found.goal.timed:
            assert found.reached, found
    machine = Machine(2, 4.0, "kernel", "3.10", "18.6", 100.0)
    table = list(report.lines(machine, SHORT, findings))
    assert {line.count("|") for line in table[: len(findings) + 2]} == {9}
    read_back = json.loads(json.dumps(report.as_json(machine, SHORT, findings), allow_nan=False))
    assert [finding["what"] for finding in read_back["findings"]] == [
        found.what for found in findings
    ]
    assert plot.svg(findings).count("rx=") == sum(
        finding.reached is not None for finding in findings
    )


def test_each_case_says_in_a_line_what_it_does() -> None:
    """`python -m benchmarks list` has something to say about each."""
    assert all(cases.summary(name).endswith(".") for name in cases.CASES)


def test_exchange_touches_what_it_must_and_no_more(bench: Bench) -> None:
    """Two rows of tasks, one of a span, an attempt, a delta; no more next to 100 times as many."""
    found = {finding.what: finding for finding in cases.run(bench, ["touched"])}
    rewritten, moved, recorded, counted, scans = [finding.ours for finding in found.values()][:5]
    assert (rewritten, recorded, scans) == (2, 1, 0)
    assert moved is not None
    assert 1 <= moved <= 1.5
    assert counted is not None
    assert 1 <= counted <= 1.1  # one exchange in 1,024 folds, which writes one more
    assert all(finding.reached for finding in found.values())
