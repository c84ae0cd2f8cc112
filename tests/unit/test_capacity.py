"""`taskq plan` does its arithmetic right, and says where its figures are from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from taskq.errors import NotFound, UsageError
from taskq.planning.capacity import DISK_BYTES, WAL_BYTES, Measured, Need, capacity, from_bench
from tests.helpers.command_line import CommandLine

FOUND = {
    "findings": [
        {"case": "one-row", "unit": "tasks/s", "what": "one task at a time", "ours": 6_000.0},
        {"case": "batches", "unit": "tasks/s", "what": "batches of 100", "ours": 57_000.0},
        {
            "case": "wal",
            "unit": "bytes",
            "what": "log of a task's life, one at a time",
            "ours": 1e3,
        },
        {"case": "wal", "unit": "bytes", "what": "disk for a task, one at a time", "ours": 600},
        {
            "case": "wal",
            "unit": "bytes",
            "what": "log of a task's life, batches of 100",
            "ours": 8e2,
        },
    ]
}

command = CommandLine("host=/nowhere")


def test_the_study_with_amga_is_reproduced() -> None:
    """4,000 agents and 300 s made 133 requests/s of ten accesses each; 20,000 made 665."""
    assert capacity(Need(4_000, 300), Measured()).amga_per_s == pytest.approx(133, abs=0.5)
    assert capacity(Need(20_000, 300), Measured()).amga_per_s == pytest.approx(666.7, abs=0.1)


def test_shares_follow_from_the_measured_rate() -> None:
    """20,000 agents with 300 s a task need 66.7 tasks and 667 beats a second, of 6,000."""
    found = capacity(Need(20_000, 300, tasks=1_000_000), Measured(6_000))
    assert found.tasks_per_s == found.exchanges_per_s == pytest.approx(66.67, abs=0.01)
    assert found.task_share == pytest.approx(1 / 90)
    assert found.beat_share == pytest.approx(1 / 9)
    assert found.share == pytest.approx(11 / 90)
    assert found.most_agents == pytest.approx(20_000 * 90 / 11, abs=1)
    assert found.duration_s == pytest.approx(15_000)
    assert found.beats_per_s == pytest.approx(20_000 / 30)
    assert found.tasks_per_day == pytest.approx(5_760_000)
    assert found.wal_bytes_per_day == pytest.approx(5_760_000 * WAL_BYTES)


def test_batches_make_fewer_exchanges_and_as_many_tasks() -> None:
    """What an agent does at once is one exchange."""
    found = capacity(Need(1_000, 1, batch=50), Measured())
    assert (found.tasks_per_s, found.exchanges_per_s) == (1_000, 20)


def test_heartbeats_do_not_get_cheaper_with_batches() -> None:
    """One is counted as a call of its own, by the rate of calls if that is known."""
    need = Need(3_000, 1, batch=100)
    assert capacity(need, Measured(57_000)).beat_share == pytest.approx(100 / 570)
    assert capacity(need, Measured(57_000, 6_000)).beat_share == pytest.approx(100 / 6_000)


def test_nothing_measured_means_no_share() -> None:
    """A share of an assumed rate would be a guess."""
    found = capacity(Need(1, 1), Measured())
    assert (found.measured_per_s, found.share, found.most_agents) == (None, None, None)


def test_figures_are_taken_from_the_case_that_fits() -> None:
    """Batches of 100 and more by their own rate, smaller ones by that of single tasks."""
    assert from_bench(FOUND, 1) == Measured(6_000, 6_000, 1_000, 600)
    assert from_bench(FOUND, 99) == Measured(6_000, 6_000, 1_000, 600)
    assert from_bench(FOUND, 100) == Measured(57_000, 6_000, 800, DISK_BYTES)


@pytest.mark.parametrize(
    "report",
    [{}, {"findings": 7}, {"findings": [7, {"case": "one-row", "unit": "tasks/s", "ours": None}]}],
)
def test_a_file_without_the_rate_is_refused(report: dict[str, Any]) -> None:
    """A plan is not made from something else."""
    with pytest.raises(UsageError):
        from_bench(report, 1)


def test_the_command_needs_no_server(tmp_path: Path) -> None:
    """Arithmetic with figures from a file is done anywhere."""
    file = tmp_path / "bench.json"
    file.write_text(json.dumps(FOUND))
    words = ("plan", "--agents", 20_000, "--task-seconds", 300, "--json", file)
    told = command.json(*words)
    assert told["measured_per_s"] == 6_000
    assert told["agents"] == 20_000
    said = command.out(*words)
    assert "12.2 %: 1.1 % for tasks at 6,000/s, 11.1 % for heartbeats; comfortable" in said


def test_more_than_the_server_can_is_called_so() -> None:
    """The share says whether it will do."""
    said = command.out("plan", "--agents", 1_000, "--task-seconds", 1, "--rate", 100)
    assert "1,000.0 % for tasks" in said
    assert "more than it can" in said


def test_two_sources_of_the_rate_are_refused() -> None:
    """Nobody would know which was taken."""
    words = ("plan", "--agents", 1, "--task-seconds", 1, "--rate", 1, "--measure")
    assert command.refused(*words)[0] == UsageError.exit_code


@pytest.mark.parametrize("text", [None, "no JSON", "[]"])
def test_a_file_that_is_none_of_the_benchmarks_is_refused(tmp_path: Path, text: str | None) -> None:
    """The error names the file."""
    file = tmp_path / "bench.json"
    if text is not None:
        file.write_text(text)
    words = ("plan", "--agents", 1, "--task-seconds", 1, "--json", file)
    exit_code, said = command.refused(*words)
    assert exit_code == (NotFound.exit_code if text is None else UsageError.exit_code)
    assert "bench.json" in said
