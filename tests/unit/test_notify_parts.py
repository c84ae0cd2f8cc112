"""Parts of notifications: targets, public addresses, files of webhooks, words."""

from __future__ import annotations

from pathlib import Path

import pytest

from taskq.model.errors import UsageError
from taskq.upkeep.channels import Channels, SmtpServer, Target, read_webhook
from taskq.upkeep.deliver import is_public
from taskq.upkeep.notifications import EVENTS
from taskq.upkeep.texts import message, sentence

FIGURES = {
    "finished": {"done": 1_990, "failed": 10, "cancelled": 0},
    "paused": {"why": "97 of 100 attempts failed within 3 s"},
    "no-agents": {"waiting": 1, "campaigns": 1, "first": "/c/a"},
    "failing": {"failures": 30, "attempts": 40},
    "slow": {"ended": 1, "usual": 2_000},
    "trouble": {"text": "Host n17: 98 % of 240 attempts fail here.", "commands": ["taskq up"]},
    "disk": {"free": 1_500_000_000, "size": 10**12},
    "test": {"login": "ann"},
}


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


@pytest.mark.parametrize("event", [*EVENTS, "test"])
def test_every_event_has_words(event: str) -> None:
    """Also with figures that another release has written."""
    text = sentence(event, "/c", FIGURES[event])
    assert text.endswith(".")
    assert text != f"/c: {event}."
    assert sentence(event, "/c", {}) == f"/c: {event}."
    assert sentence("new", "/c", {}) == "/c: new."


def test_words_of_events() -> None:
    """As people read them."""
    told = {event: sentence(event, "/c", figures) for event, figures in FIGURES.items()}
    assert told["finished"] == "/c has finished: 1,990 done, 10 failed, 0 cancelled."
    assert told["paused"] == "/c has paused itself: 97 of 100 attempts failed within 3 s."
    assert told["no-agents"] == "1 task waits in /c/a, and no agent at work serves it."
    assert told["disk"] == "The disk of /c is nearly full: 1.5 of 1,000 GB are free."
    assert told["slow"] == "/c has become slow: 1 task ended in 15 minutes, 2,000 were usual."
    assert told["failing"] == "30 of the latest 40 first attempts in /c failed."


def test_id_of_a_message_is_that_of_its_events() -> None:
    """In whatever order they come, from whatever host."""
    events = [
        {"event_id": n, "event": "test", "subject": "/c", "noted_at": "", "figures": {}}
        for n in ("a", "b")
    ]
    one = message("r", "/c", events, host="x")
    other = message("r", "/c", events[::-1], host="y")
    assert one["id"] == other["id"] != message("r", "/c", events[:1], host="x")["id"]
