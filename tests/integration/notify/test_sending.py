"""Messages on their way: batched, signed, tried again, given up, never twice under two ids."""

from __future__ import annotations

import base64
import hmac
import json
import threading
from pathlib import Path

import pytest

from taskq import Campaign, Client
from taskq.db.connections import Database
from taskq.diagnosis.events import BY_NAME
from taskq.upkeep.channels import Channels
from taskq.upkeep.delivery import DEADLINE_S
from taskq.upkeep.notifications import Notifications
from taskq.upkeep.sender import Sender
from tests.helpers.postgres import Postgres, value
from tests.helpers.waiting import wait_until
from tests.integration.notify.conftest import Hook, Program
from tests.integration.notify.support import PATIENCE_S, Receiver, Trickle, look, send

SECRET = "whsec_" + base64.b64encode(b"a key of some length").decode()


@pytest.fixture
def paused(campaign: Campaign, rules: Notifications) -> Campaign:
    """Give a paused campaign, and a rule that tells it to the webhook `here`."""
    rules.add("r", campaign.path, ["paused"], "webhook:here")
    campaign.pause()
    return campaign


def retry_now(postgres: Postgres) -> None:
    """Let the time pass for which rules wait."""
    postgres.execute("update taskq.notify_rule set retry_at = now()")


@pytest.mark.usefixtures("paused")
def test_event_is_sent_once_with_its_words_and_numbers(
    sender: Sender, hook: Hook, receiver: Receiver, rules: Notifications, postgres: Postgres
) -> None:
    """As JSON; what chat services show is `text`."""
    login = value(postgres, "select session_user")
    hook()
    send(sender, lambda: rules.rule("r").sent_at)
    sender.round()
    (received,) = receiver.got
    (event,) = received.message["events"]
    assert (event["event"], event["campaign"]) == ("paused", "/c")
    assert event["text"] == f"/c was paused by an operator ({login})."
    assert "taskq campaign resume /c" in event["commands"]
    assert event["text"] in received.message["text"]
    assert received.message["subject"] == f"taskq: /c was paused by an operator ({login})"
    (stored,) = rules.events("r")
    assert (str(stored.event_id), stored.status) == (event["id"], "sent")


@pytest.mark.usefixtures("paused")
def test_message_is_signed_with_the_secret_of_its_file(
    sender: Sender, hook: Hook, receiver: Receiver
) -> None:
    """As standardwebhooks.com says: over id, time and body."""
    hook(secret=SECRET)
    send(sender, lambda: receiver.got)
    (received,) = receiver.got
    signed = (
        f"{received.headers['Webhook-Id']}.{received.headers['Webhook-Timestamp']}.".encode()
        + received.body
    )
    digest = hmac.digest(b"a key of some length", signed, "sha256")
    assert received.headers["Webhook-Signature"] == f"v1,{base64.b64encode(digest).decode()}"
    assert received.headers["Webhook-Id"] == received.message["id"]
    assert SECRET.encode() not in received.body


@pytest.mark.thorough
def test_events_of_a_rule_go_together(
    queue: Client, rules: Notifications, sender: Sender, hook: Hook, receiver: Receiver
) -> None:
    """A hundred in a message; what comes within half a minute is the next one."""
    for n in range(3):
        queue.create_campaign(f"/c/{n}").pause()
    rules.add("r", "/c", ["paused"], "webhook:here")
    hook()
    send(sender, lambda: rules.rule("r").sent_at)
    queue.create_campaign("/c/9").pause()
    (received,) = receiver.got
    assert len(received.message["events"]) == 3
    assert received.message["subject"] == "taskq: 3 events in /c"


@pytest.mark.thorough
def test_rule_rests_after_a_message(
    campaign: Campaign,
    rules: Notifications,
    sender: Sender,
    hook: Hook,
    receiver: Receiver,
    database: Database,
    postgres: Postgres,
) -> None:
    """What happens within half a minute is one message then."""
    rules.add("r", "/", ["paused"], "webhook:here")
    hook()
    rules.test("r")
    send(sender, lambda: rules.rule("r").sent_at)
    campaign.pause()
    assert look(database, postgres) == 1
    for _ in range(3):
        sender.round()
    assert len(receiver.got) == 1
    retry_now(postgres)
    send(sender, lambda: len(receiver.got) == 2)


@pytest.mark.thorough
@pytest.mark.usefixtures("paused")
def test_message_that_fails_is_tried_again_later_and_later(
    sender: Sender,
    hook: Hook,
    receiver: Receiver,
    rules: Notifications,
    postgres: Postgres,
) -> None:
    """From half a minute to an hour, under the same ids; the reason is shown."""
    hook()
    receiver.answer = 503
    waits = []
    for attempt in (1, 2, 3, 8):
        postgres.execute("update taskq.notify_rule set attempts = %s", [attempt - 1])
        retry_now(postgres)
        send(sender, lambda n=attempt: rules.rule("r").attempts == n)  # type: ignore[misc]
        rule = rules.rule("r")
        assert rule.trouble == "127.0.0.1 answered 503"
        waits.append(rule.retry_in_s)
    assert waits == pytest.approx([30, 60, 120, 3_600], abs=25)
    receiver.answer = 204
    retry_now(postgres)
    send(sender, lambda: rules.rule("r").sent_at)
    rule = rules.rule("r")
    assert (rule.attempts, rule.trouble, rule.waiting) == (0, None, 0)
    assert len({received.headers["Webhook-Id"] for received in receiver.got}) == 1
    assert len({received.message["events"][0]["id"] for received in receiver.got}) == 1


@pytest.mark.thorough
@pytest.mark.usefixtures("paused")
def test_message_is_given_up_visibly_after_twelve_tries(
    sender: Sender,
    hook: Hook,
    receiver: Receiver,
    rules: Notifications,
    postgres: Postgres,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Its events stay to be seen; the rule goes on with the next ones."""
    hook()
    receiver.answer = 500
    postgres.execute("update taskq.notify_rule set attempts = 11")
    send(sender, lambda: rules.rule("r").given_up)
    rule = rules.rule("r")
    assert (rule.waiting, rule.attempts, rule.trouble) == (0, 0, "127.0.0.1 answered 500")
    assert [event.status for event in rules.events("r")] == ["given up"]
    assert "1 event of the rule r given up: 127.0.0.1 answered 500" in caplog.text
    receiver.answer = 200
    rules.test("r")
    send(sender, lambda: rules.rule("r").sent_at)


@pytest.mark.thorough
@pytest.mark.usefixtures("paused")
def test_message_whose_sender_died_is_sent_again_by_another_under_the_same_ids(
    sender: Sender,
    hook: Hook,
    receiver: Receiver,
    rules: Notifications,
    database: Database,
    channels: Channels,
    postgres: Postgres,
) -> None:
    """After a minute, in which it may still have been under way."""
    hook()
    dies = Sender(database, channels)
    dies.round()  # looks
    dies.round()  # takes
    wait_until(lambda: receiver.got, timeout_s=PATIENCE_S)
    dies.close()
    for _ in range(3):
        sender.round()
    assert rules.rule("r").waiting == 1
    postgres.execute("update taskq.notify_rule set held_until = now() - interval '1 s'")
    send(sender, lambda: rules.rule("r").sent_at)
    first, second = receiver.got
    assert first.message["id"] == second.message["id"]
    assert first.message["events"] == second.message["events"]


@pytest.mark.thorough
@pytest.mark.usefixtures("paused")
def test_two_senders_send_a_message_once(
    sender: Sender,
    hook: Hook,
    receiver: Receiver,
    rules: Notifications,
    database: Database,
    channels: Channels,
) -> None:
    """Each takes what the other has not."""
    hook()
    other = Sender(database, channels)
    try:
        for _ in range(3):
            sender.round()
            other.round()
        send(sender, lambda: other.round() or rules.rule("r").sent_at)  # type: ignore[func-returns-value]
    finally:
        other.close()
    assert len(receiver.got) == 1


@pytest.mark.thorough
@pytest.mark.usefixtures("paused")
def test_sender_takes_what_it_can_send_only(
    sender: Sender, hook: Hook, receiver: Receiver, rules: Notifications
) -> None:
    """What it has no file, mail server or program for waits for a keeper that has."""
    rules.add("m", "/c", ["paused"], "mail:ann@example.org")
    rules.add("p", "/c", ["paused"], "command:page")
    for _ in range(3):
        sender.round()
    assert [(rule.name, rule.reached, rule.attempts) for rule in rules.list()] == [
        ("m", False, 0),
        ("p", False, 0),
        ("r", False, 0),
    ]
    hook()
    send(sender, lambda: rules.rule("r").sent_at)
    assert rules.rule("r").reached
    assert len(receiver.got) == 1


@pytest.mark.thorough
def test_slow_and_endless_receivers_are_given_up_and_keep_nobody_waiting(
    campaign: Campaign, sender: Sender, hook: Hook, receiver: Receiver, rules: Notifications
) -> None:
    """Others get messages meanwhile; a delivery is killed at its deadline, in whatever state."""
    with Trickle() as trickle:
        hook("trickle", trickle.url)
        hook()
        for n in range(3):
            rules.add(f"bad-{n}", campaign.path, [*BY_NAME], "webhook:trickle")
            rules.test(f"bad-{n}")
        for _ in range(2):
            sender.round()
        wait_until(lambda: trickle.clients == 3, timeout_s=PATIENCE_S)
        rules.add("good", campaign.path, [*BY_NAME], "webhook:here")
        rules.test("good")
        send(sender, lambda: rules.rule("good").sent_at)
        assert len(receiver.got) == 1
        send(sender, lambda: rules.rule("bad-0").attempts and rules.rule("bad-2").attempts)
        assert rules.rule("bad-0").trouble == f"not delivered within {DEADLINE_S:g} s"
        trickle.over.set()
        trickle.shutdown()


@pytest.mark.thorough
@pytest.mark.usefixtures("paused")
def test_redirect_is_not_followed(
    sender: Sender, hook: Hook, receiver: Receiver, rules: Notifications
) -> None:
    """Neither to another host nor to the same: who redirects could name any address."""
    hook()
    receiver.answer, receiver.location = 302, receiver.url + "/elsewhere"
    send(sender, lambda: rules.rule("r").attempts)
    assert len(receiver.got) == 1
    assert "it redirects, which is not followed" in (rules.rule("r").trouble or "")


@pytest.mark.thorough
@pytest.mark.usefixtures("queue")
def test_rule_reaches_no_private_address_by_itself(
    campaign: Campaign, sender: Sender, rules: Notifications
) -> None:
    """Nor by a name that resolves to one."""
    for n, host in enumerate(("127.0.0.1", "localhost", "[::1]")):
        rules.add(f"r{n}", campaign.path, [*BY_NAME], f"webhook:https://{host}:1/")
        rules.test(f"r{n}")
    send(sender, lambda: all(rule.attempts for rule in rules.list()))
    for rule in rules.list():
        assert "has no public address" in (rule.trouble or "")


def test_program_gets_the_message_on_its_standard_input(
    paused: Campaign,
    sender: Sender,
    program: Program,
    rules: Notifications,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And none of the keeper's secrets; arguments it has none."""
    monkeypatch.setenv("TASKQ_DSN", "postgresql://u:secret@h/d")
    monkeypatch.setenv("PGPASSWORD", "secret")
    monkeypatch.setenv("TASKQ_SMTP_PASSWORD", "secret")
    out = tmp_path / "out"
    program("page", f"cat > {out}.json; env > {out}.env; echo $# > {out}.args")
    rules.add("p", paused.path, ["paused"], "command:page")
    send(sender, lambda: rules.rule("p").sent_at)
    message = json.loads(Path(f"{out}.json").read_text())
    assert message["events"][0]["text"].startswith("/c was paused by an operator (")
    assert "secret" not in Path(f"{out}.env").read_text()
    assert Path(f"{out}.args").read_text() == "0\n"


def test_notification_program_that_fails_is_reported(
    campaign: Campaign, sender: Sender, program: Program, rules: Notifications
) -> None:
    """One that ends well has its message, even if it did not read it."""
    program("bad", "exit 3")
    program("deaf", "exit 0")
    for name in ("bad", "deaf"):
        rules.add(name, campaign.path, [*BY_NAME], f"command:{name}")
        rules.test(name)
    send(sender, lambda: rules.rule("bad").attempts and rules.rule("deaf").sent_at)
    assert rules.rule("bad").trouble == "the program ended with code 3"


def test_only_programs_of_the_folder_are_run(
    campaign: Campaign, sender: Sender, program: Program, rules: Notifications, tmp_path: Path
) -> None:
    """What is no program there, or not there at all, is taken by nobody."""
    program("data", "true").chmod(0o644)
    (tmp_path / "programs" / "folder").mkdir()
    (tmp_path / "outside").write_text("#!/bin/sh\n")
    for name in ("data", "folder", "outside", "none"):
        rules.add(name, campaign.path, [*BY_NAME], f"command:{name}")
        rules.test(name)
    for _ in range(3):
        sender.round()
    assert [(rule.reached, rule.attempts) for rule in rules.list()] == [(False, 0)] * 4


@pytest.mark.thorough
@pytest.mark.usefixtures("paused")
def test_texts_of_nodes_reach_messages_without_markup_and_controls(
    sender: Sender, hook: Hook, receiver: Receiver, postgres: Postgres
) -> None:
    """A message is read in terminals, browsers and chats."""
    why = "\x1b]0;x\x07 <!channel> <script>alert(1)</script>\r\nBcc: a@b " + "é" * 3_000
    postgres.execute("update taskq.campaign set paused_why = %s where path = '/c'", [why])
    hook()
    send(sender, lambda: receiver.got)
    text = receiver.got[0].message["text"]
    assert "(!channel) (script)alert(1)(/script) Bcc: a@b" in text
    assert not [c for c in text if not c.isprintable() and c != "\n"]
    assert len(text) < 1_000


@pytest.mark.thorough
@pytest.mark.usefixtures("paused")
def test_rule_that_was_removed_while_its_message_was_under_way_is_gone(
    sender: Sender, hook: Hook, receiver: Receiver, rules: Notifications, postgres: Postgres
) -> None:
    """The message arrives; nothing is left of it, and the sender goes on."""
    hook()
    go_on = threading.Event()
    receiver.before_answer = lambda _: go_on.wait(PATIENCE_S) and None
    send(sender, lambda: receiver.got)
    assert rules.remove("r")
    go_on.set()
    rules.add("next", "/c", ["paused"], "webhook:here")
    send(sender, lambda: rules.list()[0].waiting)
    send(sender, lambda: rules.rule("next").sent_at)
    assert value(postgres, "select count(*) from taskq.notify_event") == 1
