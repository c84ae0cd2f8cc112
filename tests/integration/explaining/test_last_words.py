"""Programs that end by an error: `db check` and `explain /` have their last words."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import click
import pytest

from taskq import Client
from taskq.db.checks.every import checked
from taskq.db.connections import Database
from taskq.model.errors import UsageError
from taskq_cli import last_words
from tests.helpers.command_line import CommandLine
from tests.helpers.postgres import Postgres, value
from tests.helpers.waiting import wait_until

HOST = socket.gethostname()


def ended(taskq: CommandLine, *words: object) -> str:
    """Run a command as a service, which fails; return its standard error."""
    with taskq.process(*words) as service:
        _, errors = service.communicate(timeout=60)
    assert service.returncode > 0
    return errors


def explained(queue: Client) -> list[str]:
    """Return what `explain /` says of programs."""
    reasons = queue.campaign("/").explain().reasons
    return [reason.text for reason in reasons if reason.code == "server-programs"]


def said(queue: Client) -> list[str]:
    """Return what `explain /` says of programs, and `db check` too, while nothing moves."""
    texts = explained(queue)
    found = [it for it in checked(queue.database) if it.check == "programs" and it.remedy]
    assert [text.startswith(it.text) for text, it in zip(texts, found, strict=True)] == [
        True
    ] * len(found)
    return texts


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> click.Context:
    """Give the context of a command whose standard error is no terminal."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: False)
    return click.Context(click.Command("keeper"), info_name="taskq keeper")


@pytest.mark.thorough
def test_gateway_that_cannot_start_is_explained_by_its_own_words(
    queue: Client, taskq: CommandLine, tmp_path: Path
) -> None:
    """Whatever keeps it: a port that is taken, a certificate that is none, another release."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended(taskq, "gateway", "--plain", "--listen", f"127.0.0.1:{port}")
    (text,) = said(queue)
    assert text.startswith(f"`taskq gateway 127.0.0.1:{port}` on {HOST} ended by an error at ")
    assert "in use" in text
    certificate = tmp_path / "chain.pem"
    certificate.write_text("no certificate")
    ended(taskq, "gateway", "--tls-cert", certificate, "--tls-key", certificate)
    assert "chain.pem" in said(queue)[0]


@pytest.mark.thorough
def test_keeper_of_another_release_is_explained(
    queue: Client, postgres: Postgres, taskq: CommandLine
) -> None:
    """It cannot use the database, but what it says comes through."""
    digest = value(postgres, "select functions from taskq.installation")
    postgres.execute("update taskq.installation set functions = 'other'")
    errors = ended(taskq, "keeper")
    postgres.execute("update taskq.installation set functions = %s", [digest])
    (text,) = said(queue)
    assert text.startswith(f"`taskq keeper` on {HOST} ended by an error at ")
    assert " ".join(errors.split())[len("Error: ") :][:60] in text


def test_words_go_when_the_program_runs_again(
    queue: Client, command: click.Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After half a minute: a program that ends again before stays named."""
    with command, pytest.raises(OSError, match="no room"), last_words.noted(queue.queries):
        raise OSError("no room for the log")
    assert "no room for the log" in said(queue)[0]
    with command, last_words.noted(queue.queries):
        assert said(queue)
    monkeypatch.setattr(last_words, "STEADY_S", 0.0)
    with command, last_words.noted(queue.queries):
        wait_until(lambda: not explained(queue))


def test_normal_ends_and_people_at_a_terminal_leave_no_words(
    queue: Client, command: click.Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who types a command reads its error."""
    for error in (click.exceptions.Exit(3), click.Abort(), KeyboardInterrupt()):
        with command, pytest.raises(type(error)), last_words.noted(queue.queries):
            raise error
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with command, pytest.raises(UsageError), last_words.noted(queue.queries):
        raise UsageError("no such campaign")
    assert not said(queue)


@pytest.mark.thorough
def test_login_leaves_twenty_notes_at_most(
    queue: Client, database: Database, postgres: Postgres
) -> None:
    """Each once, with how often; invented names hide nothing of others."""
    for number in range(25):
        for _ in range(2):
            database.value(
                "note_stopped", program=f"p{number}", host="h" * 300, why="x\n\x1b[31m" * 200
            )
    counts = "select array[count(*), max(length(why)), max(length(host)), max(times)]"
    assert value(postgres, f"{counts} from taskq.stopped") == [20, 500, 200, 1]
    assert len(said(queue)) == 20
    postgres.execute("update taskq.stopped set last_at = last_at - interval '11 s'")
    database.value("note_stopped", program="p3", host="h" * 300, why="again")
    assert "ended by an error 2 times since " in said(queue)[0]
    postgres.execute("update taskq.stopped set last_at = last_at - interval '1 day'")
    assert not said(queue)
