"""Servers and schemas from the command line, and dry runs of what removes something."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import LiteralString

import psycopg
import pytest
from click.testing import CliRunner, Result

from taskq import Campaign
from taskq.embedded import RedisServer, Server
from taskq_cli.main import main
from tests.helpers.command_line import CommandLine


@pytest.fixture
def home() -> Iterator[Path]:
    """Give a home for a server that is not there yet."""
    # Not tmp_path, which is closed to the user that root's server runs as.
    place = Path(tempfile.mkdtemp(prefix="taskq-test-"))
    place.chmod(0o755)
    yield place / "home"
    RedisServer(place / "home").down()
    Server(place / "home").down(immediate=True)
    shutil.rmtree(place)


def run(home: Path, *words: str, dsn: str | None = None) -> Result:
    """Run a command of a user with this home."""
    environment = {"TASKQ_HOME": str(home), "TASKQ_DSN": dsn}
    return CliRunner().invoke(main, words, env=environment, catch_exceptions=False)


@pytest.mark.thorough
def test_embedded_server_is_started_found_and_stopped(home: Path) -> None:
    """`up` says where everything is; any command starts it; data outlive `down`."""
    created = run(home, "campaign", "create", "/c", "--", "true")
    assert created.exit_code == 0, created.stderr
    assert "The embedded PostgreSQL was started" in created.stderr
    up = run(home, "up")
    assert (up.exit_code, up.stderr) == (0, "")
    for named in (str(home / "data"), str(home / "server.log"), "postgresql://taskq@"):
        assert named in up.stdout
    if os.geteuid() == 0:
        assert "PostgreSQL refuses to run as root" in up.stdout
    assert run(home, "down").stdout == "The server has stopped.\n"
    assert run(home, "down").stdout == "The server was not running.\n"
    assert run(home, "ls", "-o", "jsonl").stdout.startswith('{"campaign_id": 2, "path": "/c"')


@pytest.mark.thorough
def test_one_command_deletes_all_that_is_on_the_disk_and_nothing_else(home: Path) -> None:
    """It asks first, stops the server, and leaves the user's own files; a next `up` begins anew."""
    assert run(home, "campaign", "create", "/c", "--", "true").exit_code == 0
    (home / "thesis.tex").touch()
    cache = home.with_name("cache") / f"taskq-inputs-{os.geteuid()}"
    cache.mkdir(parents=True)
    (cache / ("0" * 64)).touch()
    refused = run(home, "down", "--delete-data")
    assert (refused.exit_code, "--yes" in refused.stderr) == (2, True)
    assert run(home, "status", "/c").exit_code == 0
    environment = {"TASKQ_HOME": str(home), "XDG_CACHE_HOME": str(cache.parent), "TASKQ_DSN": None}
    words = ["down", "--delete-data", "--yes"]
    done = CliRunner().invoke(main, words, env=environment, catch_exceptions=False)
    assert done.exit_code == 0, done.stderr
    assert str(home / "data") in done.stdout
    assert Server(home).status() is None
    assert [path.name for path in home.iterdir()] == ["thesis.tex"]
    assert [path.name for path in cache.iterdir()] == ["0" * 64], "other queues' agents use it"
    assert f"{cache} (4 KiB) stays" in done.stderr
    assert run(home, "status", "/c").exit_code == 66


@pytest.mark.thorough
def test_redis_is_started_on_request_and_stopped_with_the_server(home: Path) -> None:
    """`up --with-redis` tells its address, a later `up` as well; no other command starts it."""
    before = json.loads(run(home, "up", "-o", "json").stdout)
    assert before["redis"] is None
    up = run(home, "up", "--with-redis")
    assert up.exit_code == 0, up.stderr
    url = json.loads(run(home, "up", "-o", "json").stdout)["redis"]
    for fills in ("keeper", "gateway"):
        assert f"\n  taskq {fills} --redis {url}\n" in up.stdout
    status = run(home, "front", "status", "--redis", url)
    assert (status.exit_code, "never used" in status.stdout) == (0, True), status.stderr
    assert run(home, "down").stdout == "Redis has stopped.\nThe server has stopped.\n"
    assert json.loads(run(home, "down", "-o", "json").stdout) == {
        "stopped": False,
        "redis_stopped": False,
    }


@pytest.mark.thorough
def test_no_command_upgrades_the_embedded_server_by_itself(home: Path) -> None:
    """Agents of another release may be at work on it; only `db migrate` does."""
    dsn = json.loads(run(home, "up", "-o", "json").stdout)["dsn"]
    with psycopg.connect(dsn, autocommit=True) as admin:
        admin.execute("update taskq.installation set functions = 'another release'")
        for words in (["status"], ["up"]):
            refused = run(home, *words)
            assert (refused.exit_code, "taskq db migrate" in refused.stderr) == (78, True)
        (kept,) = admin.execute("select functions from taskq.installation").fetchone() or ("",)
        assert kept == "another release"
    assert run(home, "db", "migrate").exit_code == 0
    assert run(home, "status").exit_code == 0


@pytest.mark.thorough
def test_up_is_for_the_embedded_server_only(taskq: CommandLine) -> None:
    """With --dsn it is refused, and a wrong port is reported."""
    for words in (["--dsn", taskq.dsn, "up"], ["up", "--dsn", taskq.dsn], ["down", "--dsn", "x"]):
        code, error = taskq.refused(*words)
        assert (code, "leave --dsn out" in error) == (2, True)
    code, error = taskq.refused("up", "--port", 80)
    assert (code, "1024 to 32767" in error) == (2, True)


@pytest.mark.thorough
def test_commands_without_a_schema_name_the_command_that_makes_it(empty_dsn: str) -> None:
    """`db migrate` makes it, and does nothing a second time."""
    taskq = CommandLine(empty_dsn)
    code, error = taskq.refused("status")
    assert (code, "taskq db migrate" in error) == (78, True)
    looked = taskq("db", "status", "-o", "json")
    assert looked.exit_code == 78
    assert '"version": 0' in looked.stdout
    assert taskq.json("db", "migrate")["changed"] is True
    assert taskq.json("db", "migrate")["changed"] is False
    assert taskq.json("db", "status")["current"] is True
    assert taskq.json("ls") == []


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("change", "advice"),
    [
        ("update taskq.installation set migrations = migrations[:1]", "taskq db migrate"),
        (
            "update taskq.installation set migrations = migrations || 'later'::text",
            "install the newer release",
        ),
        (
            "update taskq.installation set migrations[1] = 'edited since'",
            "start with a new database or another TASKQ_HOME",
        ),
    ],
    ids=["older", "newer", "unreleased"],
)
def test_commands_refuse_the_schema_of_another_release(
    taskq: CommandLine, change: LiteralString, advice: str
) -> None:
    """No command works on a schema that it does not know."""
    with psycopg.connect(taskq.dsn, autocommit=True) as admin:
        admin.execute(change)
    for words in (["status"], ["seed", "/c", "--sweep", "n=1:2"]):
        code, error = taskq.refused(*words)
        assert (code, advice in error) == (78, True), error
    assert taskq("db", "status").exit_code == 78


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("dsn", "code", "reason"),
    [
        ("postgresql://me:secret@127.0.0.1:1/x", 69, "127.0.0.1:1"),
        ("host=/no/such/folder dbname=x", 69, "/no/such/folder"),
        ("no address", 2, "not a PostgreSQL address"),
        ("", 2, "--dsn is empty"),
    ],
    ids=["refused", "socket", "nonsense", "empty"],
)
def test_error_names_the_server_that_cannot_be_reached(
    taskq: CommandLine, dsn: str, code: int, reason: str
) -> None:
    """In one line, without the password."""
    for words in (
        ["--dsn", dsn, "status"],
        ["seed", "/c", "--sweep", "n=1:2", "--dsn", dsn],
        ["agent", "run", "--campaign", "/c", "--dsn", dsn],
    ):
        exit_code, error = taskq.refused(*words)
        assert (exit_code, reason in error) == (code, True), error
        assert "secret" not in error


@pytest.mark.thorough
def test_dsn_given_wins_over_the_environment(taskq: CommandLine, empty_dsn: str) -> None:
    """`--dsn` before or after the command is used in place of TASKQ_DSN."""
    elsewhere = CommandLine(empty_dsn)
    assert elsewhere.out("--dsn", taskq.dsn, "ls", "-o", "json") == "[]\n"
    assert elsewhere.out("ls", "-o", "json", "--dsn", taskq.dsn) == "[]\n"


REMOVALS = (
    (["campaign", "rm", "/c"], ["ls"], "/c and 0 tasks with all results would be deleted"),
    (["input", "rm", "/c", "ligands"], ["input", "list", "/c"], "ligands of /c, 3 bytes,"),
    (["notify", "rm", "night"], ["notify", "list"], "rule night would be removed, with 0 waiting"),
    (["pilots", "rm", "here"], ["pilots", "list"], "pilot here would be removed, with 0 live jobs"),
    (["token", "revoke", "ada"], ["token", "list"], "token ada would be revoked, with 0 sessions"),
)


@pytest.fixture
def filled(taskq: CommandLine, campaign: Campaign, tmp_path: Path) -> CommandLine:
    """Give the commands on a queue that has one of each."""
    file = tmp_path / "ligands"
    file.write_bytes(b"CCO")
    taskq.out("input", "add", campaign.path, file)
    rule = ("--campaign", "/c", "--on", "finished", "--to", "mail:ann@example.org")
    taskq.out("notify", "add", "night", *rule)
    taskq.out("pilots", "add", "local", "here", "--campaign", "/c", "--folder", tmp_path)
    taskq.out("token", "create", "ada", "--kind", "manager", "--campaign", "/c")
    return taskq


@pytest.mark.parametrize(
    ("remove", "look", "said"), REMOVALS, ids=lambda it: it[0] if isinstance(it, list) else ""
)
def test_dry_run_removes_nothing(
    filled: CommandLine, remove: list[str], look: list[str], said: str
) -> None:
    """It names the thing; the same command without it then removes that."""
    before = filled.json(*look)
    plan = filled.out(*remove, "--dry-run")
    assert said in plan
    assert plan.endswith("; nothing was changed.\n")
    assert filled.json(*look) == before
    filled.out(*remove, *(["--yes"] * (remove[0] in {"campaign", "pilots"})))
    assert filled.json(*look) != before
    assert filled.refused(*remove, "--dry-run")[0] == 66
