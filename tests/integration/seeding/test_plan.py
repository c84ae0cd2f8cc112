"""`taskq plan --measure` measures a real server, and says how far off its model is."""

from __future__ import annotations

import pytest

from taskq.db.connections import Database
from taskq.model.errors import UsageError
from taskq.planning import trial
from tests.helpers.command_line import CommandLine

pytestmark = pytest.mark.thorough


def test_plan_measures_the_server(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a database of its own. What the figures are is not judged."""
    monkeypatch.setattr(trial, "MEASURED_S", 0.05)
    monkeypatch.setattr(trial, "MOST_TASKS", 500)
    monkeypatch.setattr(trial, "TASKS", 12_000)
    words = ("plan", "--agents", "1e6", "--task-time", 300, "--cores", 4, "--measure")
    line = CommandLine(database.dsn)
    plan = line.json(*words)
    assert set(plan["costs"]) == set(trial.Costs.__dataclass_fields__)
    for name in (
        "statement_us",
        "task_us",
        "heartbeat_us",
        "log_task",
        "log_heartbeat",
        "vacuum_mb_s",
    ):
        assert plan["costs"][name] > 0, name
    sizes = [(check["together"], check["batch"]) for check in plan["checks"]]
    assert sizes == [*trial.CHECKED]


def test_server_elsewhere_is_not_measured(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its processes cannot be seen from here."""
    monkeypatch.setattr(trial, "exists", lambda path: "/proc" not in str(path))
    words = ("plan", "--agents", 1, "--task-time", 1, "--measure")
    code, said = CommandLine(database.dsn).refused(*words)
    assert code == UsageError.exit_code
    assert "on this machine" in said
