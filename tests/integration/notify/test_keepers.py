"""`taskq keeper` and `taskq notify` as processes and commands: what people see and type."""

from __future__ import annotations

import os
import signal
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from taskq import Campaign
from taskq.db.connections import Database
from taskq.diagnosis.events import TROUBLE
from taskq.model.errors import Unavailable
from taskq.upkeep.looks import Looks
from taskq.upkeep.notifications import Notifications
from taskq.upkeep.texts import message
from tests.fixtures.logins import Staff
from tests.helpers.command_line import CommandLine
from tests.helpers.postgres import Postgres
from tests.helpers.waiting import wait_until
from tests.integration.notify.conftest import Hook, Program
from tests.integration.notify.support import PATIENCE_S, Received, Receiver, look, pass_by


@pytest.fixture
def taskq(dsn: str) -> CommandLine:
    """Give the command line."""
    return CommandLine(dsn)


@pytest.mark.thorough
def test_keeper_that_is_killed_between_sending_and_recording_loses_nothing(
    taskq: CommandLine,
    hook: Hook,
    receiver: Receiver,
    rules: Notifications,
    campaign: Campaign,
    postgres: Postgres,
    tmp_path: Path,
) -> None:
    """Another sends it again, under ids by which the receiver knows it."""
    hook()
    words = ["keeper", "--webhooks", tmp_path / "webhooks"]
    rules.add("r", campaign.path, ["paused"], "webhook:here")
    campaign.pause()
    with taskq.process(*words) as first:

        def kill(_: Received) -> None:
            os.kill(first.pid, signal.SIGKILL)
            first.wait()

        receiver.before_answer = kill
        wait_until(lambda: receiver.got, timeout_s=PATIENCE_S)
        assert first.wait(PATIENCE_S) == -signal.SIGKILL
        assert rules.rule("r").sent_at is None
    receiver.before_answer = lambda _: None
    postgres.execute("update taskq.notify_rule set held_until = now() - interval '1 s'")
    with taskq.process(*words) as second:
        wait_until(lambda: rules.rule("r").sent_at, timeout_s=PATIENCE_S)
        second.terminate()
        assert second.wait(PATIENCE_S) == 0
    before, after = receiver.got
    assert before.message["id"] == after.message["id"]
    assert before.message["events"] == after.message["events"]


@pytest.mark.thorough
def test_rule_from_the_first_command_to_the_last(
    taskq: CommandLine, receiver: Receiver, hook: Hook, campaign: Campaign, tmp_path: Path
) -> None:
    """Add, list, test, show, remove."""
    hook()
    added = taskq(
        *("notify", "add", "night", "--campaign", campaign.path, "--on", "finished,paused"),
        *("--to", "webhook:here", "--after", "2min"),
    )
    assert "no running keeper can send them; start `taskq keeper --webhooks" in added.stderr
    assert "no keeper sends it" in taskq.out("notify", "list")
    with taskq.process("keeper", "--webhooks", tmp_path / "webhooks"):
        assert taskq.json("notify", "test", "night")["status"] == "sent"
        assert taskq.out("notify", "test", "night", "--timeout", 0).startswith("The test waits")
    assert receiver.texts[0].startswith("This is a test, asked for by")
    shown = taskq.json("notify", "show", "night")
    assert (shown["after_s"], shown["events"]) == (120, ["finished", "paused"])
    assert {record["status"] for record in shown["latest"]} <= {"sent", "waiting"}
    assert "last sent" in taskq.out("notify", "show", "night")
    assert taskq.json("notify", "list")[0]["name"] == "night"
    taskq.out("notify", "rm", "night")
    code, error = taskq.refused("notify", "rm", "night")
    assert (code, error) == (
        66,
        "no notification rule night; `taskq notify list` shows all",
    )


@pytest.mark.thorough
def test_test_that_fails_says_why(
    taskq: CommandLine, program: Program, campaign: Campaign, tmp_path: Path
) -> None:
    """With the keeper's words; without a keeper, what to start."""
    program("page", "exit 7")
    add = ["notify", "add", "p", "--campaign", campaign.path, "--on", "paused"]
    taskq.out(*add, "--to", "command:page")
    code, error = taskq.refused("notify", "test", "p", "--timeout", 0.1)
    assert code == 69
    assert error.endswith("start `taskq keeper --programs FOLDER`, with page in it")
    with taskq.process("keeper", "--programs", tmp_path / "programs"):
        _, error = taskq.refused("notify", "test", "p")
    assert error == "the message was not sent: the program ended with code 7"
    assert "failed 1 time: the program" in taskq.out("notify", "list").replace("\n", " ")


@pytest.mark.parametrize(
    "words",
    [
        ["--to", "mail:ann@example.org\nBcc: x@y.org"],
        ["--to", "mail:ann@example.org,eve@example.org"],
        ["--to", "mail:Ann <ann@example.org>"],
        ["--to", "webhook:http://example.org/"],
        ["--to", "webhook:https://u:secret@example.org/"],
        ["--to", "webhook:file:///etc/passwd"],
        ["--to", "webhook:https://example.org/\x00"],
        ["--to", "webhook:https://example.org/ x"],
        ["--to", "webhook:../secret"],
        ["--to", "command:/bin/sh"],
        ["--to", "command:..", "--on", "paused"],
        ["--to", "command:a b"],
        ["--to", "ftp:x"],
        ["--to", "webhook:https://example.org/" + "x" * 1_000],
        ["--on", "finished,x"],
        ["--on", ","],
        ["--after", "31d"],
        ["--after", "-1s"],
        ["--campaign", "/none"],
        ["--campaign", "c"],
    ],
    ids=lambda words: " ".join(words)[:40].encode("unicode_escape").decode(),
)
def test_malformed_rule_is_refused(
    taskq: CommandLine, rules: Notifications, campaign: Campaign, words: list[str]
) -> None:
    """In a line, before anything is stored."""
    usual = {"--campaign": campaign.path, "--on": "paused", "--to": "mail:ann@example.org"}
    usual |= dict(zip(words[::2], words[1::2], strict=True))
    given = [word for pair in usual.items() for word in pair]
    result = taskq("notify", "add", "r", *given)
    assert result.exit_code in {2, 66}, result.output
    assert "secret@" not in result.stderr
    assert rules.list() == []


@pytest.mark.parametrize("name", ["", "A", "a b", "../x", "x" * 41, "é", "\x1b[1m"])
def test_names_of_rules_are_plain(taskq: CommandLine, rules: Notifications, name: str) -> None:
    """They stand in messages, logs and commands."""
    words = ["--campaign", "/", "--on", "paused", "--to", "mail:ann@example.org"]
    assert taskq("notify", "add", *words, "--", name).exit_code == 2
    assert rules.list() == []


def test_hundred_rules_are_enough(
    taskq: CommandLine, rules: Notifications, campaign: Campaign
) -> None:
    """Each costs every look."""
    for n in range(100):
        rules.add(f"r{n}", campaign.path, ["paused"], "mail:ann@example.org")
    words = ["--campaign", "/", "--on", "paused", "--to", "mail:ann@example.org"]
    _, error = taskq.refused("notify", "add", "one-more", *words)
    assert error == "there are 100 notification rules; remove some"
    _, error = taskq.refused("notify", "add", "r1", *words)
    assert "100" in error
    for _ in range(10):
        rules.test("r1")
    _, error = taskq.refused("notify", "test", "r1")
    assert error == "10 tests of the rule r1 wait already"


@pytest.mark.thorough
def test_keeper_without_the_right_to_send_does_its_other_work(staff: Staff) -> None:
    """It logs that sending needs the role operator."""
    gateway = staff.login("gateway")
    with gateway.taskq.process("keeper") as keeper:
        assert keeper.stderr is not None
        line = keeper.stderr.readline()
        assert "the sending of notifications cannot be done now" in line
        assert "permission denied" in line
        keeper.terminate()
        assert keeper.wait(PATIENCE_S) == 0


@pytest.mark.parametrize(
    "words",
    [
        ["--smtp", "smtp://mail.example.org"],
        ["--mail-from", "taskq@example.org"],
        ["--smtp", "smtp://u:secret@mail.example.org", "--mail-from", "taskq@example.org"],
        ["--smtp", "http://mail.example.org", "--mail-from", "taskq@example.org"],
        ["--smtp", "smtp://mail.example.org:99999", "--mail-from", "taskq@example.org"],
        ["--smtp", "smtp://mail.example.org", "--mail-from", "taskq"],
        ["--programs", "/nowhere"],
    ],
    ids=" ".join,
)
def test_options_that_make_no_sense_end_a_keeper(taskq: CommandLine, words: list[str]) -> None:
    """Before it begins; a password is not repeated."""
    result = taskq("keeper", *words)
    assert result.exit_code == 2
    assert "secret" not in result.stderr


def test_trouble_that_explain_names_is_reported_once_with_its_commands(
    database: Database,
    campaign: Campaign,
    rules: Notifications,
    postgres: Postgres,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A look that fails ends nothing; one that finds nothing does."""
    rules.add("t", "/c", [TROUBLE], "webhook:here")
    spec = campaign.spec()
    campaign.change(replace(spec, handler=None))
    campaign.seed([{}])
    assert look(database, postgres) == 0, "it may end by itself"
    with monkeypatch.context() as broken:

        def fails(*_: object, **__: object) -> None:
            raise Unavailable("the server is away")

        broken.setattr("taskq.upkeep.looks.read_facts", fails)
        postgres.execute("update taskq.notify_watch set due_at = now() - interval '1 s'")
        assert Looks(database).look(database) is None
    pass_by(postgres, 300)
    assert look(database, postgres) == 1
    (event,) = rules.events("t")
    assert (event.event, event.subject) == ("no-handler", "/c")
    why = "1 task waits: it has no handler, so no agent can run it; /c was changed at 20"
    assert event.figures["text"].startswith(why)
    assert event.figures["text"].endswith(" (handler).")
    sent = message("t", "/c", [asdict(event) | {"event_id": "e", "noted_at": ""}], host="h")
    text = f"{event.figures['text']}\n  $ taskq campaign change /c -- PROG"
    assert sent["text"].startswith(text)
    (only,) = sent["events"]
    assert (only["event"], only["code"], only["campaign"]) == (TROUBLE, "no-handler", "/c")
    campaign.change(spec)
    assert look(database, postgres) == 0
    pass_by(postgres, 601)
    assert look(database, postgres) == 0
    campaign.change(replace(spec, handler=None))
    assert look(database, postgres) == 0, "it lasts for five minutes first"
    pass_by(postgres, 300)
    assert look(database, postgres) == 1
