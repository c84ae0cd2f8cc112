"""Parts of notifications: targets, public addresses, files of webhooks, words."""

from __future__ import annotations

from pathlib import Path

import pytest

from taskq.diagnosis.events import BY_NAME, EVENTS, event_named
from taskq.model.errors import UsageError
from taskq.upkeep.channels import Channels, SmtpServer, read_webhook
from taskq.upkeep.targets import Target
from taskq.upkeep.texts import message, sentence
from taskq.upkeep.webhooks import is_public


@pytest.mark.parametrize(
    ("text", "channel", "to"),
    [
        ("mail:ann+q@example.org", "mail", "ann+q@example.org"),
        ("webhook:https://example.org:8443/a?b=c", "webhook", "https://example.org:8443/a?b=c"),
        ("webhook:slack", "named-webhook", "slack"),
        ("command:page-me", "command", "page-me"),
    ],
)
def test_targets_are_of_four_kinds(text: str, channel: str, to: str) -> None:
    """A webhook is an address or a name."""
    assert Target.parsed(text) == Target(channel, to)


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1"),
        *("0.0.0.0", "255.255.255.255", "224.0.0.1", "192.0.2.1", "198.18.0.1", "240.0.0.1"),  # noqa: S104  # none is listened on
        *("::1", "::", "fe80::1", "fe80::1%eth0", "fc00::1", "ff02::1", "2001:db8::1"),
        *("::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::a00:1", "2002:a00:1::", "2001:0::1"),
    ],
)
def test_addresses_that_are_not_public_are_known(address: str) -> None:
    """Also where an IPv4 address is hidden in another one."""
    assert not is_public(address)


@pytest.mark.parametrize("address", ["93.184.216.34", "2606:2800:220:1::1", "::ffff:8.8.8.8"])
def test_public_addresses_are_public(address: str) -> None:
    """And can be shown."""
    assert is_public(address)


def test_file_of_a_webhook_has_an_address_and_a_secret(tmp_path: Path) -> None:
    """The secret as its receiver gives it out."""
    file = tmp_path / "slack"
    file.write_text("https://example.org/T/secret-part\nwhsec_a2V5\n")
    webhook = read_webhook(file)
    assert (webhook.url, webhook.key) == ("https://example.org/T/secret-part", b"key")
    file.write_text("http://10.0.0.1:8080/\n")
    assert read_webhook(file).key is None


@pytest.mark.parametrize(
    "content",
    [
        "",
        "ftp://h/secret",
        "https:///secret",
        "https://h/secret x",
        "https://h/secret\nno prefix",
        "https://h/secret\nwhsec_no base64",
        "https://h/secret\nwhsec_",
        "https://h/secret\nwhsec_a2V5\nmore",
        "https://h:99999/secret",
        "https://h/secrét",
        "x" * 5_000,
    ],
)
def test_damaged_file_of_a_webhook_shows_no_secret(tmp_path: Path, content: str) -> None:
    """Its error is stored, where others read it."""
    (tmp_path / "slack").write_text(content)
    with pytest.raises(UsageError, match="the webhook slack: ") as caught:
        read_webhook(tmp_path / "slack")
    assert "secr" not in str(caught.value).removesuffix("a secret").replace("its secret", "")


def test_keeper_reaches_what_its_folders_have(tmp_path: Path) -> None:
    """Files with plain names; folders, hidden files and dead links are not offered."""
    for name in ("slack", ".hidden", "UPPER", "a b"):
        (tmp_path / name).write_text("https://example.org/")
    (tmp_path / "folder").mkdir()
    (tmp_path / "dead").symlink_to("/nowhere")
    server = SmtpServer.parsed("smtps://me@mail.example.org")
    assert (server.port, server.user, server.encrypted) == (465, "me", True)
    can = Channels(smtp=server, mail_from="a@b.c", webhooks=tmp_path, programs=tmp_path)
    assert can.reaches() == ["webhook", "mail", "webhook:slack"]
    assert Channels(webhooks=tmp_path / "gone").reaches() == ["webhook"]


def test_every_code_belongs_to_one_event() -> None:
    """What no event names is trouble."""
    codes = [code for kind in EVENTS for code in kind.codes]
    assert len(codes) == len(set(codes))
    assert {event_named(code).name for code in codes} | {"trouble"} == BY_NAME.keys()
    assert event_named("failing-host").name == "trouble"
    assert event_named("silent").name == "no-agents"


def test_sentence_of_an_event_is_that_of_its_reason() -> None:
    """Without what chat services take for mark-up; also if another release has written it."""
    assert sentence("silent", {"text": "All <2> agents\nare silent."}) == (
        "All (2) agents are silent."
    )
    assert sentence("new", {}) == "new."
    assert sentence("test", {"login": "ann"}).startswith("This is a test, asked for by ann.")


def test_message_says_which_campaign_and_where_all_reasons_are() -> None:
    """A disk belongs to no campaign."""
    reason = {"event_id": "a", "noted_at": "", "event": "silent", "subject": "/c"}
    disk = reason | {"event_id": "b", "event": "disk", "figures": {"text": "The disk is full."}}
    figures = {"text": "1 task waits: its agent is silent.", "commands": ["taskq agent list /c"]}
    record = message("r", "/c", [reason | {"figures": figures}], host="x")
    assert record["subject"] == "taskq: /c: 1 task waits: its agent is silent"
    assert record["text"].startswith(f"/c: {figures['text']}\n  $ taskq agent list /c\n")
    assert "  $ taskq explain /c\n" in record["text"]
    assert (record["events"][0]["event"], record["events"][0]["code"]) == ("no-agents", "silent")
    other = message("r", "/c", [disk], host="x")
    assert other["text"].startswith("The disk is full.\n")
    assert "taskq explain" not in other["text"]


def test_id_of_a_message_is_that_of_its_events() -> None:
    """In whatever order they come, from whatever host."""
    events = [
        {"event_id": n, "event": "test", "subject": "/c", "noted_at": "", "figures": {}}
        for n in ("a", "b")
    ]
    record = message("r", "/c", events, host="x")
    other = message("r", "/c", events[::-1], host="y")
    assert record["id"] == other["id"] != message("r", "/c", events[:1], host="x")["id"]
