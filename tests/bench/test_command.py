"""The benchmark refuses what would be worthless, before it measures."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest

from benchmarks import cases, machine
from benchmarks.__main__ import main
from benchmarks.findings import Finding, Goal, Ratio
from benchmarks.machine import MUST_BE_ON
from taskq.db.connections import Database
from taskq.model.errors import ServerUnsuitable
from tests.helpers.command_line import CommandLine
from tests.helpers.postgres import Postgres


@pytest.fixture
def command(dsn: str) -> CommandLine:
    return CommandLine(dsn, main)


@pytest.mark.thorough
def test_server_without_durable_commits_is_refused(command: CommandLine) -> None:
    """The tests' own server has fsync off, so it gets no figures."""
    exit_code, said = command.refused("run", "one-row")
    assert exit_code == ServerUnsuitable.exit_code
    assert " = off" in said


def test_list_names_every_case(command: CommandLine) -> None:
    """Nothing is measured, so any server will do."""
    assert [row["case"] for row in command.json("list")] == list(cases.CASES)


def test_group_stands_for_its_cases() -> None:
    """In their order, each once, whatever else is named."""
    gateway = [name for name in cases.CASES if name.startswith("gateway-")]
    assert cases.chosen(["gateway"]) == gateway
    assert cases.chosen(["wal", gateway[1], "gateway"]) == [
        "wal",
        gateway[1],
        gateway[0],
        *gateway[2:],
    ]


def test_cases_that_take_hours_run_only_by_name() -> None:
    """So `make bench` ends on the same day."""
    assert cases.chosen([]) == [name for name in cases.CASES if name != "endurance"]
    assert cases.chosen(["endurance"]) == ["endurance"]


@pytest.mark.parametrize("options", [("--plot", "plot.jpg"), ("--json", "absent/bench.json")])
def test_files_that_cannot_be_written_are_refused_first(
    command: CommandLine, tmp_path: Path, options: tuple[str, str]
) -> None:
    """Not after hours of measuring."""
    exit_code, said = command.refused("run", options[0], tmp_path / options[1])
    assert exit_code == 2
    assert options[1] in said


@pytest.mark.parametrize(
    ("statement", "place"),
    [
        ("alter database {name} set work_mem = '1234kB'", "the database"),
        ("alter role current_user in database {name} set work_mem = '1234kB'", "the database user"),
        ("alter function taskq.fold set work_mem = '1234kB'", "function fold"),
    ],
)
def test_settings_are_read_back_wherever_they_are_made(
    postgres: Postgres, dsn: str, statement: str, place: str
) -> None:
    """A setting of the database, the role or a function of taskq does not pass unseen."""
    name = postgres.info.dbname
    postgres.execute(statement.format(name=name).encode())
    with closing(Database(dsn).open()) as database:
        rows = database.rows("benchmarks.sql/settings", names=["work_mem"])
    assert {row["place"] for row in rows if row["setting"] in {"1234", "1234kB"}} == {place}


def test_function_that_makes_commits_volatile_is_named(
    postgres: Postgres, database: Database, tmp_path: Path
) -> None:
    """The refusal says where the setting is made."""
    postgres.execute("alter function taskq.fold set synchronous_commit = off")
    rows = database.rows("benchmarks.sql/settings", names=list(MUST_BE_ON))
    assert ("function fold", "off") in {(row["place"], row["setting"]) for row in rows}
    with pytest.raises(ServerUnsuitable):
        machine.look(database, tmp_path)


@pytest.mark.parametrize(
    ("goal", "figure", "reached"),
    [
        (Goal(0.9), 0.9, True),
        (Goal(0.9), 0.89, False),
        (Goal(10, "most"), 10, True),
        (Goal(10, "most"), 10.1, False),
        (None, 1.0, None),
    ],
)
def test_goals_are_judged_by_the_ratio_if_there_is_one(
    goal: Goal | None, figure: float, reached: bool | None
) -> None:
    """At least or at most, the bound itself is good enough; without a ratio the figure counts."""
    assert Finding("x", figure, "ms", goal=goal).reached is reached
    ratio = Ratio(figure, figure, figure)
    compared = Finding("x", 1_000.0, "tasks/s", "limit", 1_000.0, ratio, goal)
    assert compared.reached is reached
    assert json.loads(json.dumps(compared.as_json()))["reached"] is reached
